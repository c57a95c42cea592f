package dynsec

import (
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

const (
	allow = true
	deny  = false
)

func acl(t broker.ACLType, topic string, allow bool, priority int) broker.ACL {
	return broker.ACL{ACLType: t, Topic: topic, Allow: allow, Priority: priority}
}

func roleOf(acls ...broker.ACL) broker.Role {
	return broker.Role{RoleName: "r", AllowWildcardSubs: true, ACLs: acls}
}

// rightsOf returns a username's rights from roles in order of evaluation.
func rightsOf(username string, roles ...broker.Role) *Rights {
	return defaultedRights(username, DefaultDefaults(), roles...)
}

func defaultedRights(username string, d Defaults, roles ...broker.Role) *Rights {
	rules := make([]*rules, len(roles))
	for i, r := range roles {
		rules[i] = compileRules(r)
	}
	return newRights(username, rules, d)
}

// verdicts of topics or filters, as one table of the observations.
type verdicts map[string]bool

func (v verdicts) check(t *testing.T, r *Rights, ev Event) {
	t.Helper()
	for topic, want := range v {
		if got := r.Allowed(ev, "cid", topic); got != want {
			t.Errorf("%q: got allowed %v, want %v", topic, got, want)
		}
	}
}

// The tables were recorded from Mosquitto 2.1.

func TestSubscribePatternCoversWhatLiesWithin(t *testing.T) {
	t.Parallel()
	verdicts{
		"a/b/c": allow, "a/+/c": allow, "a/b/c/d": allow, "a/+/c/#": allow, "a/b/c/#": allow,
		"a/#": deny, "a/+/+/#": deny, "#": deny, "+/b/c": deny, "a/b/+": deny, "A/b/c": deny,
		"$share/g/a/b/c": deny, "$share/g/a/x": deny,
	}.check(t, rightsOf("u", roleOf(acl(broker.SubscribePattern, "a/+/c/#", allow, 0))), Subscribe)
}

func TestPatternHashLeavesDollarTopicsOut(t *testing.T) {
	t.Parallel()
	verdicts{
		"#": allow, "+": allow, "x/y": allow,
		"$SYS/#": deny, "$SYS/broker/uptime": deny, "$CONTROL/dynamic-security/v1/response": deny, "$other/x": deny, "$share/g/x": deny,
	}.check(t, rightsOf("u", roleOf(acl(broker.SubscribePattern, "#", allow, 0))), Subscribe)
}

func TestLiteralGoesBeforePatternWhateverItsPriority(t *testing.T) {
	t.Parallel()
	verdicts{
		"a/+": allow, "a/x": deny, "a/y": allow, "b/1": allow, "b/+": deny, "$share/g/b/1": deny,
	}.check(t, rightsOf("u", roleOf(
		acl(broker.SubscribeLiteral, "a/+", allow, 0),
		acl(broker.SubscribeLiteral, "a/x", deny, 0),
		acl(broker.SubscribeLiteral, "b/1", allow, 0),
		acl(broker.SubscribePattern, "a/#", allow, 9),
	)), Subscribe)
}

func TestPublishClientSend(t *testing.T) {
	t.Parallel()
	verdicts{
		"a": allow, "a/1": allow, "a/no": deny, "a/low": allow, "b": deny, "p/x/q": allow, "p/x/y/q": deny,
		"$SYS/x": deny, "$CONTROL/x/v1": deny, Topic: deny,
	}.check(t, rightsOf("u", roleOf(
		acl(broker.PublishClientSend, "a/no", deny, 5),
		acl(broker.PublishClientSend, "a/#", allow, 0),
		acl(broker.PublishClientSend, "p/+/q", allow, 0),
		acl(broker.PublishClientSend, "a/low", deny, -1),
	)), PublishSend)
}

func TestPublishClientReceive(t *testing.T) {
	t.Parallel()
	verdicts{
		"x/yes": allow, "x/no": deny, "x/deep/er": allow, "x/deep/no": deny, "elsewhere": allow, "$SYS/x": allow, "$CONTROL/x": deny,
	}.check(t, rightsOf("u", roleOf(
		acl(broker.PublishClientReceive, "x/no", deny, 0),
		acl(broker.PublishClientReceive, "x/+/no", deny, 0),
	)), PublishReceive)
}

func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	verdicts{
		"u/keep": deny, "u/free": allow, "u/deep/1": deny, "u/never": allow,
	}.check(t, rightsOf("u", roleOf(
		acl(broker.UnsubscribeLiteral, "u/keep", deny, 0),
		acl(broker.UnsubscribePattern, "u/deep/#", deny, 0),
	)), Unsubscribe)
}

func TestOrderOfEvaluation(t *testing.T) {
	t.Parallel()
	ya := roleOf(acl(broker.PublishClientSend, "t", allow, 0))
	no := roleOf(acl(broker.PublishClientSend, "t", deny, 99))
	other := roleOf(acl(broker.PublishClientSend, "other", allow, 0))
	tests := map[string]struct {
		roles []broker.Role
		want  bool
	}{
		"the first role that says something decides": {[]broker.Role{other, ya, no}, allow},
		"whatever the priority of its ACL":           {[]broker.Role{no, ya}, deny},
		"no role":                                    {nil, deny},
		"ACLs of one priority: deny # first": {[]broker.Role{roleOf(
			acl(broker.PublishClientSend, "#", deny, 0), acl(broker.PublishClientSend, "t", allow, 0))}, deny},
		"ACLs of one priority: allow first": {[]broker.Role{roleOf(
			acl(broker.PublishClientSend, "t", allow, 0), acl(broker.PublishClientSend, "#", deny, 0))}, allow},
		"the higher priority, though it stands last": {[]broker.Role{roleOf(
			acl(broker.PublishClientSend, "t", deny, 0), acl(broker.PublishClientSend, "+", deny, 1), acl(broker.PublishClientSend, "#", allow, 2))}, allow},
	}
	for name, tt := range tests {
		if got := rightsOf("u", tt.roles...).Allowed(PublishSend, "cid", "t"); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestManyACLsOfOnePriorityKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for first := range 50 {
		var acls []broker.ACL
		for i := range 200 {
			acls = append(acls, acl(broker.PublishClientSend, strings.Repeat("x/", i)+"#", i == first*3+2, i%3))
			if i < first*3 {
				acls[i].Topic = "elsewhere"
			}
		}
		if !rightsOf("u", roleOf(acls...)).Allowed(PublishSend, "cid", strings.Repeat("x/", 201)) {
			t.Errorf("got denied, want the first of priority 2 that matches, number %d, to decide", first*3+2)
		}
	}
}

func TestControlNeedsAnACL(t *testing.T) {
	t.Parallel()
	open := Defaults{PublishClientSend: true, PublishClientReceive: true, Subscribe: true, Unsubscribe: true}
	all := func(topic string) broker.Role {
		return roleOf(acl(broker.PublishClientSend, topic, allow, 0), acl(broker.PublishClientReceive, topic, allow, 0),
			acl(broker.SubscribePattern, topic, allow, 0), acl(broker.UnsubscribePattern, topic, allow, 0))
	}
	tests := map[string]struct {
		rights *Rights
		want   bool
	}{
		"a pattern #":               {rightsOf("free", all("#")), deny},
		"all defaults":              {defaultedRights("u", open), deny},
		"all defaults, anonymous":   {defaultedRights("", open), deny},
		"a pattern $CONTROL/#":      {rightsOf("admin2", all("$CONTROL/#")), allow},
		"a pattern with wild start": {rightsOf("u", all("+/dynamic-security/#")), deny},
	}
	for name, tt := range tests {
		for _, ev := range []Event{PublishSend, PublishReceive, Subscribe, Unsubscribe} {
			for _, topic := range []string{Topic, ResponseTopic, "$CONTROL", "$CONTROL/unknown/v1"} {
				if got := tt.rights.Allowed(ev, "cid", topic); got != tt.want {
					t.Errorf("%s, event %d, %q: got %v, want %v", name, ev, topic, got, tt.want)
				}
			}
		}
	}
	verdicts{"$CONTROL/#": allow}.check(t, rightsOf("admin2", all("$CONTROL/#")), Subscribe)
	verdicts{"$share/g/$CONTROL/#": deny, "$share/g/x": allow, "#": allow}.check(t, defaultedRights("u", open), Subscribe)
}

func TestDefaultsDecideAtTheEnd(t *testing.T) {
	t.Parallel()
	events := []Event{PublishSend, PublishReceive, Subscribe, Unsubscribe}
	for i, d := range []Defaults{{PublishClientSend: true}, {PublishClientReceive: true}, {Subscribe: true}, {Unsubscribe: true}} {
		for j, ev := range events {
			if got := defaultedRights("u", d).Allowed(ev, "cid", "t"); got != (i == j) {
				t.Errorf("default %+v, event %d: got %v, want %v", d, ev, got, i == j)
			}
		}
	}
	if defaultedRights("u", Defaults{true, true, true, true}).Allowed(Event(9), "cid", "t") {
		t.Error("an unknown event is allowed, want denied")
	}
}

func TestPlaceholdersStandForWholeLevels(t *testing.T) {
	t.Parallel()
	role := roleOf(
		acl(broker.PublishClientSend, "c/%c/state", allow, 0),
		acl(broker.PublishClientSend, "u/%u/#", allow, 0),
		acl(broker.PublishClientSend, "p/x%c", allow, 0),
		acl(broker.PublishClientSend, "%u/first", allow, 0),
		acl(broker.SubscribePattern, "c/%c/#", allow, 0),
		acl(broker.SubscribeLiteral, "l/%c", allow, 0),
	)
	tests := map[string]struct {
		ev            Event
		username, cid string
		topic         string
		want          bool
	}{
		"own client id":                  {PublishSend, "bob", "dev1", "c/dev1/state", allow},
		"another client id":              {PublishSend, "bob", "dev1", "c/dev2/state", deny},
		"longer level":                   {PublishSend, "bob", "dev1", "c/dev12/state", deny},
		"shorter level":                  {PublishSend, "bob", "dev1", "c/dev/state", deny},
		"own username":                   {PublishSend, "bob", "dev1", "u/bob/x/y", allow},
		"own username, the level itself": {PublishSend, "bob", "dev1", "u/bob", allow},
		"another username":               {PublishSend, "bob", "dev1", "u/eve/x", deny},
		"no username never matches %u":   {PublishSend, "", "dev1", "u//x", deny},
		"not even %u itself":             {PublishSend, "", "dev1", "u/%u/x", deny},
		"no client id never matches %c":  {PublishSend, "bob", "", "c//state", deny},
		"part of a level is text":        {PublishSend, "bob", "dev1", "p/x%c", allow},
		"and is not substituted":         {PublishSend, "bob", "dev1", "p/xdev1", deny},
		"in the first level":             {PublishSend, "bob", "dev1", "bob/first", allow},
		"never a level that begins $":    {PublishSend, "$SYS", "dev1", "$SYS/first", deny},
		"filter below the own id":        {Subscribe, "bob", "dev1", "c/dev1/+", allow},
		"filter + is not the own id":     {Subscribe, "bob", "dev1", "c/+/state", deny},
		"literal ACLs are taken as text": {Subscribe, "bob", "dev1", "l/%c", allow},
		"and are not substituted":        {Subscribe, "bob", "dev1", "l/dev1", deny},
		"client id of a wildcard":        {Subscribe, "bob", "+", "c/+/state", deny},
		"client id #":                    {Subscribe, "bob", "#", "c/#", deny},
		"client id with a separator":     {PublishSend, "bob", "a/state", "c/a/state/state", deny},
		"username with a separator":      {PublishSend, "a/b", "dev1", "u/a/b/x", deny},
		"client id that looks like %u":   {PublishSend, "bob", "%u", "c/%u/state", allow},
	}
	for name, tt := range tests {
		if got := rightsOf(tt.username, role).Allowed(tt.ev, tt.cid, tt.topic); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestNamesThatAreNoLevelDoNotEscapeDenials(t *testing.T) {
	t.Parallel()
	role := roleOf(
		acl(broker.PublishClientSend, "cfg/%u/#", deny, 1),
		acl(broker.PublishClientSend, "cfg/#", allow, 0),
		acl(broker.SubscribePattern, "own/%c/secret", deny, 1),
		acl(broker.SubscribePattern, "own/#", allow, 0),
	)
	tests := map[string]struct {
		ev                   Event
		username, cid, topic string
		want                 bool
	}{
		"sound username, own":           {PublishSend, "bob", "c", "cfg/bob/x", deny},
		"sound username, other":         {PublishSend, "bob", "c", "cfg/eve/x", allow},
		"username with a separator":     {PublishSend, "a/b", "c", "cfg/a/b/x", deny},
		"outside of what is denied":     {PublishSend, "a/b", "c", "cfg", allow},
		"client id +":                   {Subscribe, "bob", "+", "own/+/secret", deny},
		"client id with a separator":    {Subscribe, "bob", "a/b", "own/a/secret", deny},
		"no username: %u never matches": {PublishSend, "", "c", "cfg/bob/x", allow},
	}
	for name, tt := range tests {
		if got := rightsOf(tt.username, role).Allowed(tt.ev, tt.cid, tt.topic); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestRoleWithoutWildcardSubscriptions(t *testing.T) {
	t.Parallel()
	strict := broker.Role{ACLs: []broker.ACL{
		acl(broker.SubscribePattern, "a/#", allow, 0),
		acl(broker.SubscribeLiteral, "a/+", allow, 0),
		acl(broker.PublishClientSend, "a/#", allow, 0),
	}}
	free := roleOf(acl(broker.SubscribePattern, "#", allow, 0), acl(broker.SubscribeLiteral, "$share/g/+", allow, 0))
	t.Run("it denies every wildcard once it is reached", func(t *testing.T) {
		t.Parallel()
		verdicts{"a/1": allow, "a/+": deny, "a/#": deny, "b/1": allow, "b/+": deny, "$share/g/+": deny}.check(t, rightsOf("u", strict, free), Subscribe)
	})
	t.Run("a role before it goes first", func(t *testing.T) {
		t.Parallel()
		verdicts{"a/+": allow, "b/#": allow, "$share/g/+": allow, "$x/+": deny, "$x/1": deny}.check(t, rightsOf("u", free, strict), Subscribe)
	})
	t.Run("it concerns nothing but subscriptions", func(t *testing.T) {
		t.Parallel()
		verdicts{"a/+": allow}.check(t, rightsOf("u", strict), Unsubscribe)
		verdicts{"a/1": allow}.check(t, rightsOf("u", strict), PublishSend)
	})
}

func TestSharedSubscriptionNeedsARightThatNamesIt(t *testing.T) {
	t.Parallel()
	r := rightsOf("u", roleOf(
		acl(broker.SubscribePattern, "a/#", allow, 0),
		acl(broker.SubscribePattern, "$share/g/b/#", allow, 0),
		acl(broker.SubscribePattern, "$share/+/c", allow, 0),
		acl(broker.SubscribeLiteral, "$share/g/d", allow, 0),
	))
	verdicts{
		"a/1": allow, "$share/g/a/1": deny, "$share/g/b/1": allow, "$share/h/b/1": deny, "b/1": deny,
		"$share/x/c": allow, "c": deny, "$share/g/d": allow, "d": deny, "$share/g": deny, "$share/+/c": deny,
	}.check(t, r, Subscribe)
}

func TestWhatIsNoTopicIsDenied(t *testing.T) {
	t.Parallel()
	r := defaultedRights("u", Defaults{true, true, true, true}, roleOf(
		acl(broker.PublishClientSend, "#", allow, 0), acl(broker.SubscribePattern, "#", allow, 0), acl(broker.SubscribeLiteral, "a#", allow, 0)))
	verdicts{"": deny, "a/+": deny, "a/#": deny, "a\x00": deny, "\xff": deny, "ok": allow}.check(t, r, PublishSend)
	verdicts{"": deny, "a#": deny, "a/#/b": deny, "\xff": deny, "$share/g/": deny, "ok/+": allow}.check(t, r, Subscribe)
}

func TestACLThatIsNoFilterDenies(t *testing.T) {
	t.Parallel()
	flawedFirst := func(topic string) *Rights {
		return rightsOf("u", roleOf(
			acl(broker.PublishClientSend, "before/#", allow, 1),
			acl(broker.PublishClientSend, topic, allow, 0),
			acl(broker.PublishClientSend, "#", allow, 0),
			acl(broker.PublishClientSend, "$x/#", allow, 0)))
	}
	tests := map[string]verdicts{
		"bad/#/x":   {"bad/x": deny, "other": deny, "before/x": allow, "$x/1": allow},
		"#x":        {"other": deny, "before/x": allow, "$x/1": allow},
		"$x/#/y":    {"other": allow, "$x/1": deny},
		"a/b+/c":    {"a/b": deny, "a/b1/c": deny, "a/bb": deny, "a/c": allow, "a": allow, "ab": allow, "a/b/c": deny},
		"a/+/b#":    {"a/x/b": deny, "a/x/bc/d": deny, "a/x/c": allow, "b/x/b": allow},
		"%c/x#":     {"cid/x": deny, "other/x1": deny, "other/y": allow},
		"a+":        {"a": deny, "ab/c": deny, "b": allow},
		"+a":        {"a": deny, "anything": deny},
		"a/b/c/++":  {"a/b/c/d": deny, "a/b/c": allow},
		"before/x#": {"before/x": allow},
	}
	for topic, want := range tests {
		t.Run(topic, func(t *testing.T) { want.check(t, flawedFirst(topic), PublishSend) })
	}
}

func TestCompileLeavesTheRoleAlone(t *testing.T) {
	t.Parallel()
	r := roleOf(acl(broker.PublishClientSend, "a", allow, 1), acl(broker.PublishClientSend, "b", allow, 2))
	before := slices.Clone(r.ACLs)
	compileRules(r)
	if !slices.Equal(r.ACLs, before) {
		t.Errorf("got %v, want %v", r.ACLs, before)
	}
}
