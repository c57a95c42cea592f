package console

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func rule(kind, topic string, priority int, allow bool) accessRule {
	return accessRule{Type: kind, Topic: topic, Priority: priority, Allow: allow}
}

func TestRules_survive_as_text(t *testing.T) {
	t.Parallel()
	rules := []accessRule{
		rule("publishClientSend", "plant/%u/#", 0, true), rule("publishClientSend", "5 a", -7, false), rule("publishClientSend", "5", 0, true),
		rule("subscribePattern", " two  spaces ", 100000, true), rule("subscribeLiteral", `"quoted"`, 0, false), rule("subscribeLiteral", "a\nb\tc", 0, true),
		rule("unsubscribePattern", "\u202egnp.exe", 1, true), rule("unsubscribeLiteral", "#", 0, true), rule("publishClientReceive", "größe/\u00a0", 0, true), rule("publishClientSend", "", 0, true),
	}
	got, bad := parseRules(formatRules(rules))
	if bad != nil || !reflect.DeepEqual(got, rules) {
		t.Errorf("got %+v with errors %v, want %+v", got, bad, rules)
	}
}

func TestParseRules(t *testing.T) {
	t.Parallel()
	got, bad := parseRules("# comment\r\n\r\n ALLOW\tpublishclientsend  plant/#\r\ndeny subscribePattern 3 a b\nallow publishClientSend 5\n" +
		"permit publishClientSend a\nallow publish a\nallow publishClientSend\nallow publishClientSend \"a\nallow publishClientSend 99999999999999999999 a\n")
	want := []accessRule{rule("publishClientSend", "plant/#", 0, true), rule("subscribePattern", "a b", 3, false), rule("publishClientSend", "5", 0, true)}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("rules: got %+v, want %+v", got, want)
	}
	wantBad := []lineError{{6, "rules.bad.verb", "permit"}, {7, "rules.bad.type", "publish"}, {8, "rules.bad.topic", "allow publishClientSend"},
		{9, "rules.bad.quoted", `"a`}, {10, "rules.bad.priority", "99999999999999999999"}}
	if !reflect.DeepEqual(bad, wantBad) {
		t.Errorf("errors: got %+v, want %+v", bad, wantBad)
	}
	if _, bad := parseRules(strings.Repeat("x\n", 1000)); len(bad) != maxLineErrors {
		t.Errorf("%d errors", len(bad))
	}
}

func TestDiffRules(t *testing.T) {
	t.Parallel()
	a, b, c := rule("publishClientSend", "a", 0, true), rule("publishClientSend", "b", 0, true), rule("publishClientSend", "c", 5, false)
	changed := rule("publishClientSend", "c", 6, false)
	for name, x := range map[string]struct {
		before, after []accessRule
		want          []ruleChange
	}{
		"nothing":      {[]accessRule{a, b}, []accessRule{a, b}, nil},
		"another role": {nil, []accessRule{a}, []ruleChange{{Kind: "added", After: a}}},
		"all at once": {[]accessRule{a, c}, []accessRule{b, changed},
			[]ruleChange{{Kind: "added", After: b}, {Kind: "changed", Before: c, After: changed}, {Kind: "removed", Before: a}}},
		"the order of equal priorities": {[]accessRule{a, b}, []accessRule{b, a}, []ruleChange{{Kind: "moved", Before: b, After: b}, {Kind: "moved", Before: a, After: a}}},
		"an order without a meaning":    {[]accessRule{c, a}, []accessRule{a, c}, nil},
		"a rule that stands twice":      {[]accessRule{a}, []accessRule{a, a}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := diffRules(x.before, x.after); !reflect.DeepEqual(got, x.want) {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

// TestMoveRule moves rules at random: each move exchanges two neighbours in the order of
// evaluation, and changes nothing else.
func TestMoveRule(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var rules []accessRule
		for i := range 2 + rng.IntN(6) {
			rules = append(rules, rule(ruleTypes[rng.IntN(2)], string(rune('a'+i)), rng.IntN(3), true))
		}
		sortRules(rules)
		before := slices.Clone(rules)
		i, by := rng.IntN(len(rules)), 1-2*rng.IntN(2)
		moveRule(rules, i, by)
		sortRules(rules)
		j := i + by
		if j < 0 || j >= len(rules) || before[i].Type != before[j].Type {
			if !reflect.DeepEqual(rules, before) {
				t.Fatalf("moving %d by %d changed %+v to %+v", i, by, before, rules)
			}
			continue
		}
		for k := range rules {
			want := before[k].Topic
			switch k {
			case i:
				want = before[j].Topic
			case j:
				want = before[i].Topic
			}
			if rules[k].Topic != want || rules[k].Priority != before[k].Priority {
				t.Fatalf("moving %d by %d changed %+v to %+v", i, by, before, rules)
			}
		}
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	d := roleDraft{accessRole: accessRole{Rules: []accessRule{
		rule("publishClientSend", "plant/#", 0, true), rule("publishClientSend", "plant/secret", 5, false), rule("publishClientSend", "%u/x", 0, true),
		rule("publishClientSend", "id/%c", 9, false), rule("subscribePattern", "a/+", 0, true), rule("subscribeLiteral", "a/b", 0, false)}}}
	for _, x := range []struct {
		action, topic, user, client string
		want                        string
	}{
		{"publish", "plant", "", "", "allow plant/#"}, {"publish", "plant/a/b", "", "", "allow plant/#"}, {"publish", "plant/secret", "", "", "deny plant/secret"},
		{"publish", "u/x", "u", "", "allow %u/x"}, {"publish", "v/x", "u", "", "none"}, {"publish", "/x", "", "", "none"},
		{"publish", "id/7", "", "7", "deny id/%c"}, {"publish", "id/7", "", "+", "deny id/%c"}, {"publish", "id/7", "", "8", "none"},
		{"publish", "$x/x", "$x", "", "none"}, {"publish", "a/#", "", "", "invalid"}, {"publish", "", "", "", "invalid"}, {"connect", "a", "", "", "invalid"},
		{"subscribe", "a/b", "", "", "deny a/b"}, {"subscribe", "a/c", "", "", "allow a/+"}, {"subscribe", "a/+", "", "", "wildcards"}, {"subscribe", "a/b#", "", "", "invalid"},
		{"receive", "a", "", "", "none"},
	} {
		d.Tried = triedTopic{x.action, x.topic, x.user, x.client}
		v, got := d.try(), "none"
		switch {
		case v.Invalid:
			got = "invalid"
		case v.NoWildcards:
			got = "wildcards"
		case v.Rule != nil && v.Rule.Allow:
			got = "allow " + v.Rule.Topic
		case v.Rule != nil:
			got = "deny " + v.Rule.Topic
		}
		if got != x.want {
			t.Errorf("%+v: got %q, want %q", d.Tried, got, x.want)
		}
	}
}

// TestQueriesFor checks that the filters of many names match each of them and nothing
// else, within the bounds of the API.
func TestQueriesFor(t *testing.T) {
	t.Parallel()
	names := []string{"one", "a.b", "(", `\`, "ü", strings.Repeat("long", 400)}
	for i := range 300 {
		names = append(names, strings.Repeat("x", i%40)+string(rune('a'+i%26)))
	}
	matched := map[string]bool{}
	for _, q := range rolesByName.queriesFor(names) {
		value := q.Get("filterValue")
		if q.Get("filterMode") == "equals" {
			matched[value] = true
			continue
		}
		if len(value) > 1000 || q.Get("filterTarget") != "rolename" {
			t.Errorf("a filter of %d bytes over %q", len(value), q.Get("filterTarget"))
		}
		e := regexp.MustCompile(value)
		for _, name := range names {
			if e.MatchString(name) {
				matched[name] = true
			}
		}
		if e.MatchString("oneone") || e.MatchString("aXb") {
			t.Errorf("%q matches too much", value)
		}
	}
	for _, name := range names {
		if !matched[name] {
			t.Errorf("%q is not found", name)
		}
	}
	if q := rolesByName.queriesFor(nil); q != nil {
		t.Errorf("no names: %v", q)
	}
}

func TestMemberError(t *testing.T) {
	t.Parallel()
	e := &apiError{}
	e.Info.Errors = []fieldError{{"body.roles[2].priority", "p"}, {"body.username", "u"}, {"body.roles", "r"}}
	if memberError(e) != error(e) || e.Field("priority") != "p" || e.Field("username") != "u" || e.Field("roles") != "r" {
		t.Errorf("%+v", e.Info.Errors)
	}
	if other := errors.New("other"); !errors.Is(memberError(other), other) || memberError(nil) != nil {
		t.Error("another error is changed")
	}
}

func TestNewMissingFeature(t *testing.T) {
	t.Parallel()
	got := newMissingNotice("it has no plugin", "if it is a Mosquitto, add these lines:\nper_listener_settings false\nplugin /usr/x.so\nplugin_opt_config_file /var/x.json\nAny other broker is managed with its own tools")
	want := &missingNotice{Reason: "it has no plugin", Remedy: "if it is a Mosquitto, add these lines:", After: "Any other broker is managed with its own tools",
		Lines: []string{"per_listener_settings false", "plugin /usr/x.so", "plugin_opt_config_file /var/x.json"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	e, _ := accessEventOf("subscribe")
	held := []heldRole{
		{accessRole: accessRole{Name: "own", AllowWildcardSubs: true, Rules: []accessRule{rule("subscribePattern", "a/#", 0, true), rule("publishClientSend", "x", 0, true), rule("subscribeLiteral", "a", 0, false)}}},
		{accessRole: accessRole{Name: "by", Rules: []accessRule{rule("subscribePattern", "b/#", 0, true)}}, group: &groupRef{Name: "g"}},
	}
	rights := e.rightsOf(held)
	deciding := func(v accessVerdict) (places []string) {
		rules, byDefault := v.place(rights)
		for _, r := range rules {
			places = append(places, r.Place)
		}
		return append(places, byDefault)
	}
	b := rule("subscribePattern", "b/#", 0, true)
	for name, x := range map[string]struct {
		v    accessVerdict
		want []string
	}{
		"a rule of a group": {accessVerdict{Source: "role", Rule: &b, RoleName: "by", Group: "g"}, []string{"passed", "passed", "passed", "decides", "skipped"}},
		"no wildcards":      {accessVerdict{Source: "wildcards", RoleName: "by", Group: "g"}, []string{"passed", "passed", "decides", "skipped", "skipped"}},
		"the default":       {accessVerdict{Source: "default"}, []string{"passed", "passed", "passed", "passed", "decides"}},
		"a disabled client": {accessVerdict{Source: "disabled"}, []string{"", "", "", "", ""}},
	} {
		if got := deciding(x.v); !slices.Equal(got, x.want) {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
	if rights[0].Topic != "a" || rights[1].Topic != "a/#" || !rights[2].NoWildcards {
		t.Errorf("order: %+v", rights)
	}
}

// TestPlaceBounded has far more rules than a page shows: the one that decides is among
// those that are shown.
func TestPlaceBounded(t *testing.T) {
	t.Parallel()
	rights := make([]right, 10*maxRights)
	for i := range rights {
		rights[i] = right{Role: "r", accessRule: rule("publishClientSend", strings.Repeat("x", i), 0, true)}
	}
	for _, at := range []int{0, maxRights, len(rights) - 1} {
		v := accessVerdict{Source: "role", RoleName: "r", Rule: &rights[at].accessRule}
		rules, _ := v.place(rights)
		shown := slices.ContainsFunc(rules, func(c checkedRule) bool { return c.Place == placeDecides })
		if len(rules) != maxRights || !shown {
			t.Errorf("rule %d: %d rules, it is shown: %t", at, len(rules), shown)
		}
	}
}

func TestUploads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var u uploads
		id := u.keep("ann", "b1", []byte("one"))
		for _, x := range [][3]string{{id, "bob", "b1"}, {id, "ann", "b2"}, {"", "ann", "b1"}} {
			if _, ok := u.get(x[0], x[1], x[2]); ok {
				t.Errorf("%q has an upload", x)
			}
		}
		if d, ok := u.get(id, "ann", "b1"); !ok || string(d) != "one" {
			t.Errorf("got %q, %t", d, ok)
		}
		second := u.keep("ann", "b1", []byte("two"))
		if _, ok := u.get(id, "ann", "b1"); ok {
			t.Error("the first document is kept beside the second")
		}
		for i := range 20 {
			u.keep(string(rune('a'+i)), "b1", nil)
		}
		if _, ok := u.get(second, "ann", "b1"); ok || u.number() != maxUploads {
			t.Errorf("%d documents are kept", u.number())
		}
		big := u.keep("eve", "b1", make([]byte, maxUploadsBytes+1))
		if _, ok := u.get(big, "eve", "b1"); !ok || u.number() != 1 {
			t.Errorf("beside one beyond the bound %d documents are kept", u.number()-1)
		}
		<-time.After(uploadLifetime)
		synctest.Wait()
		if u.number() != 0 {
			t.Errorf("%d documents are kept after their lifetime", u.number())
		}
	})
}

// number returns the number of documents that are kept.
func (u *uploads) number() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.kept)
}

func TestCountDocument(t *testing.T) {
	t.Parallel()
	got, err := countDocument([]byte(`{"clients":[{"username":"a"},{}],"roles":[{}],"defaultACLAccess":{}}`))
	if want := (accessCounts{Clients: 2, Roles: 1, Defaults: true}); got != want || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"", "[]", `{"clients":"x"}`, `{"clients":["x"]}`, "{"} {
		if _, err := countDocument([]byte(bad)); err == nil {
			t.Errorf("%q is counted", bad)
		}
	}
}

func TestSearchMembers(t *testing.T) {
	t.Parallel()
	g := accessGroup{Clients: []groupMember{{"Alpha"}, {"beta"}, {"alphabet"}, {"gamma"}}}
	names, total := g.search("ALPHA", 1, 5)
	if total != 2 || !slices.Equal(names, []string{"alphabet"}) {
		t.Errorf("got %q of %d", names, total)
	}
	if names, total := g.search("", 0, 2); total != 4 || len(names) != 2 {
		t.Errorf("got %q of %d", names, total)
	}
}
