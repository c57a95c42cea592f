package dynsec

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// plant returns a client in a group, each with a role of its own.
func plant() Records {
	return Records{
		Client: &broker.Client{Username: "pump", Roles: []broker.RoleRef{{RoleName: "own", Priority: 3}, {RoleName: "gone", Priority: 9}},
			Groups: []broker.GroupRef{{GroupName: "pumps", Priority: 7}}},
		AnonymousGroup: "guests",
		Groups: map[string]broker.Group{
			"pumps":  {Roles: []broker.RoleRef{{RoleName: "sensor", Priority: broker.NoPriority}}},
			"guests": {Roles: []broker.RoleRef{{RoleName: "sensor", Priority: 2}}},
		},
		Roles: map[string]broker.Role{
			"own": {AllowWildcardSubs: true, ACLs: []broker.ACL{acl(broker.SubscribeLiteral, "secret", deny, 0)}},
			"sensor": {ACLs: []broker.ACL{
				acl(broker.PublishClientSend, "plant/#", allow, 0),
				acl(broker.PublishClientSend, "plant/%u/own", deny, 5),
				acl(broker.PublishClientReceive, "bad+", allow, 0),
			}},
		},
		Defaults: DefaultDefaults().acls(),
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	five, three, two, seven := broker.ACL{ACLType: broker.PublishClientSend, Topic: "plant/%u/own", Priority: 5}, broker.Priority(3), broker.Priority(2), broker.Priority(7)
	plantACL, literal := acl(broker.PublishClientSend, "plant/#", allow, 0), acl(broker.SubscribeLiteral, "secret", deny, 0)
	flawedACL := acl(broker.PublishClientReceive, "bad+", allow, 0)
	for name, c := range map[string]struct {
		ask    broker.AccessCheck
		change func(*Records)
		want   broker.Verdict
	}{
		"an ACL of a group's role": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "plant/7"}, nil,
			broker.Verdict{Allowed: true, ACLType: "publishClientSend", Source: "role", ACL: &plantACL, RoleName: "sensor", Via: "group", GroupName: "pumps", GroupPriority: &seven,
				Reason: `the ACL publishClientSend "plant/#" of the role "sensor", held through the group "pumps", allows it`}},
		"an own role before one of a group": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "plant/7"},
			func(r *Records) { r.Roles["own"] = roleOf(acl(broker.PublishClientSend, "plant/7", deny, 0)) },
			broker.Verdict{ACLType: "publishClientSend", Source: "role", ACL: new(acl(broker.PublishClientSend, "plant/7", deny, 0)), RoleName: "own", RolePriority: &three, Via: "client",
				Reason: `the ACL publishClientSend "plant/7" of the role "own" denies it`}},
		"one of higher priority": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "plant/pump/own"}, nil,
			broker.Verdict{ACLType: "publishClientSend", Source: "role", ACL: &five, RoleName: "sensor", Via: "group", GroupName: "pumps", GroupPriority: &seven,
				Reason: `the ACL publishClientSend "plant/%u/own" of the role "sensor", held through the group "pumps", denies it`}},
		"an ACL of the client's own role": {broker.AccessCheck{Username: "pump", Action: "subscribe", Topic: "secret"}, nil,
			broker.Verdict{ACLType: "subscribe", Source: "role", ACL: &literal, RoleName: "own", RolePriority: &three, Via: "client",
				Reason: `the ACL subscribeLiteral "secret" of the role "own" denies it`}},
		"an anonymous client": {broker.AccessCheck{Action: "publish", Topic: "plant/7"}, nil,
			broker.Verdict{Allowed: true, ACLType: "publishClientSend", Source: "role", ACL: &plantACL, RoleName: "sensor", RolePriority: &two, Via: "anonymous", GroupName: "guests",
				Reason: `the ACL publishClientSend "plant/#" of the role "sensor", held through the anonymous group "guests", allows it`}},
		"an anonymous client without a group": {broker.AccessCheck{Action: "publish", Topic: "plant/7"}, func(r *Records) { r.AnonymousGroup = "" },
			broker.Verdict{ACLType: "publishClientSend", Source: "default", Reason: "no ACL matches, and the default for publishClientSend denies it"}},
		"a role that allows no wildcards": {broker.AccessCheck{Username: "pump", Action: "subscribe", Topic: "plant/#"}, nil,
			broker.Verdict{ACLType: "subscribe", Source: "wildcards", RoleName: "sensor", Via: "group", GroupName: "pumps", GroupPriority: &seven,
				Reason: `the role "sensor", held through the group "pumps", allows no subscription with a wildcard`}},
		"an ACL that is no filter": {broker.AccessCheck{Username: "pump", Action: "receive", Topic: "badly"}, nil,
			broker.Verdict{ACLType: "publishClientReceive", Source: "role", ACL: &flawedACL, RoleName: "sensor", Via: "group", GroupName: "pumps", GroupPriority: &seven,
				Reason: `the ACL publishClientReceive "bad+" of the role "sensor", held through the group "pumps", is no topic filter, and such an ACL denies`}},
		"a default": {broker.AccessCheck{Username: "pump", Action: "unsubscribe", Topic: "a/#"}, nil,
			broker.Verdict{Allowed: true, ACLType: "unsubscribe", Source: "default", Reason: "no ACL matches, and the default for unsubscribe allows it"}},
		"a default that does not count": {broker.AccessCheck{Username: "pump", Action: "receive", Topic: ResponseTopic}, nil,
			broker.Verdict{ACLType: "publishClientReceive", Source: "control", Reason: "no ACL matches, and what begins with $CONTROL is never open by default"}},
		"an unknown client": {broker.AccessCheck{Username: "who", Action: "publish", Topic: "a"}, func(r *Records) { r.Client = nil },
			broker.Verdict{ACLType: "publishClientSend", Source: "unknown-client", Reason: `there is no client "who"`}},
		"a disabled client": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "plant/7"}, func(r *Records) { r.Client.Disabled = true },
			broker.Verdict{ACLType: "publishClientSend", Source: "disabled", Reason: "the client is disabled and cannot connect"}},
		"another client id": {broker.AccessCheck{Username: "pump", ClientID: "y", Action: "publish", Topic: "plant/7"}, func(r *Records) { r.Client.ClientID = "x" },
			broker.Verdict{ACLType: "publishClientSend", Source: "client-id", Reason: `the client can connect with the client id "x" only`}},
		"$SYS": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "$SYS/x"}, nil,
			broker.Verdict{ACLType: "publishClientSend", Source: "system", Reason: "no client may publish to topics that begin with $SYS or $share"}},
		"beside $SYS": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "$SYSTEM/x"}, nil,
			broker.Verdict{ACLType: "publishClientSend", Source: "default", Reason: "no ACL matches, and the default for publishClientSend denies it"}},
		"beside $SYS at Mosquitto": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "$SYSTEM/x"}, func(r *Records) { r.ReservedPrefixes = true },
			broker.Verdict{ACLType: "publishClientSend", Source: "system", Reason: "no client may publish to topics that begin with $SYS or $share"}},
		"no topic": {broker.AccessCheck{Username: "pump", Action: "publish", Topic: "a/#"}, nil,
			broker.Verdict{ACLType: "publishClientSend", Source: "invalid-topic", Reason: `this is not what a client can publish: "a/#"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := plant()
			if c.change != nil {
				c.change(&r)
			}
			if diff := cmp.Diff(c.want, Explain(c.ask, r)); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplain_takes_the_client_id_that_the_client_is_bound_to(t *testing.T) {
	t.Parallel()
	r := plant()
	r.Client.ClientID = "7"
	r.Roles["own"] = roleOf(acl(broker.PublishClientSend, "to/%c", allow, 0))
	for id, want := range map[string]bool{"": true, "7": true, "8": false} {
		v := Explain(broker.AccessCheck{Username: "pump", ClientID: id, Action: "publish", Topic: "to/7"}, r)
		if v.Allowed != want {
			t.Errorf("client id %q: %+v", id, v)
		}
	}
}

var askable = []broker.Action{broker.ActionPublish, broker.ActionReceive, broker.ActionSubscribe, broker.ActionUnsubscribe}

// TestExplainAgreesWithRights compares the verdicts for random clients with the actual
// decisions; the ACL named as the cause alone has the same effect, while all that
// precede it have none.
func TestExplainAgreesWithRights(t *testing.T) {
	t.Parallel()
	const seed, configurations, questions = 11, 1500, 60
	rng := rand.New(rand.NewPCG(seed, seed))
	seen := map[broker.DecidedBy]int{}
	for range configurations {
		r, roles := genRecords(rng)
		defaults := Defaults{rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0}
		r.Defaults = defaults.acls()
		rights := defaultedRights(r.Client.Username, defaults, roles...)
		for range questions {
			i := rng.IntN(4)
			q := broker.AccessCheck{Username: r.Client.Username, ClientID: pick(rng, genNames), Action: askable[i],
				Topic: genPath(rng, pick(rng, [][]string{genWords, genWild}))}
			v := Explain(q, r)
			seen[v.Source]++
			want := rights.Allowed(genEvents[i], q.ClientID, q.Topic) && v.Source != broker.DecidedBySystem
			if v.Allowed != want || v.Reason == "" {
				t.Fatalf("seed %d: %+v: got %+v, want allowed %v; roles %+v", seed, q, v, want, roles)
			}
			checkCause(t, q, r, v)
		}
	}
	for _, source := range []broker.DecidedBy{"role", "default", "wildcards", "control", "system", "invalid-topic"} {
		if seen[source] < 20 {
			t.Errorf("only %d verdicts rest on %q", seen[source], source)
		}
	}
}

// checkCause proves that the ACL named decides when it is the only one, and
// that the roles before its own leave the decision to the defaults.
func checkCause(t *testing.T, q broker.AccessCheck, r Records, v broker.Verdict) {
	t.Helper()
	if v.ACL == nil {
		return
	}
	alone := r
	alone.Roles = map[string]broker.Role{v.RoleName: roleOf(*v.ACL)}
	if got := Explain(q, alone); got.Allowed != v.Allowed || got.Source != broker.DecidedByACL {
		t.Fatalf("%+v: alone, the ACL of %+v makes %+v", q, v, got)
	}
	before := r
	client := *r.Client
	at := slices.IndexFunc(client.Roles, func(ref broker.RoleRef) bool { return ref.RoleName == v.RoleName })
	client.Roles = client.Roles[:at]
	before.Client = &client
	if got := Explain(q, before); got.ACL != nil || got.Source == broker.DecidedByWildcards {
		t.Fatalf("%+v: %+v comes before %+v", q, got, v)
	}
}

// genRecords makes a client with up to four roles of its own, and those roles in
// order of evaluation.
func genRecords(rng *rand.Rand) (Records, []broker.Role) {
	r := Records{Client: &broker.Client{Username: "u" + strings.ReplaceAll(pick(rng, genNames), "/", "")}, Roles: map[string]broker.Role{}}
	var roles []broker.Role
	for i := range rng.IntN(5) {
		role := genRole(rng)
		role.RoleName = string(rune('a' + i))
		r.Roles[role.RoleName] = role
		r.Client.Roles = append(r.Client.Roles, broker.RoleRef{RoleName: role.RoleName, Priority: broker.Priority(9 - i)})
		roles = append(roles, role)
	}
	return r, roles
}

func TestStateExplainAgreesWithItsRights(t *testing.T) {
	t.Parallel()
	d := dice{rand.New(rand.NewPCG(3, 1))}
	s := freshBroker(t)
	asked := 0
	for range 300 {
		s = randomBatch(t, d, s)
		for _, username := range []string{"", "c0", "c1", "c2", "c3", "c4"} {
			rights, ok := s.AnonymousRights(), true
			if username != "" {
				rights, ok = s.Rights(username)
			}
			if clientID, disabled, _, _ := s.Login(username); !ok || disabled || clientID != "" {
				continue
			}
			for i, topic := range []string{"a", "b/x", "c/+", "d"} {
				asked++
				v := s.Explain(broker.AccessCheck{Username: username, ClientID: "id", Action: askable[i], Topic: topic})
				if want := rights.Allowed(genEvents[i], "id", topic); v.Allowed != want {
					t.Fatalf("%q, %s %q: got %+v, want allowed %v", username, askable[i], topic, v, want)
				}
			}
		}
	}
	if asked < 500 {
		t.Errorf("only %d questions", asked)
	}
	if v := s.Explain(broker.AccessCheck{Username: "nobody", Action: "publish", Topic: "a"}); v.Source != broker.DecidedByUnknown {
		t.Errorf("a client that is not there: %+v", v)
	}
}

func TestGetAnswers(t *testing.T) {
	t.Parallel()
	s := freshBroker(t)
	_, s, _, _ = run(s, request(t,
		map[string]any{"command": "createRole", "rolename": "r"},
		map[string]any{"command": "createGroup", "groupname": "g", "roles": []any{map[string]any{"rolename": "r"}}},
		map[string]any{"command": "setAnonymousGroup", "groupname": "g"}), nil)
	ask := func(c Command) Response {
		t.Helper()
		payload, _, _, _ := run(s, EncodeRequest([]Command{c}), nil)
		answers, err := DecodeResponses(payload)
		if err != nil || len(answers) != 1 {
			t.Fatalf("%s: %v, %v", c, answers, err)
		}
		return answers[0]
	}
	if g, err := ask(GetGroup("g")).Group(); err != nil || g.GroupName != "g" || len(g.Roles) != 1 {
		t.Errorf("group %+v, %v", g, err)
	}
	if r, err := ask(GetRole("r")).Role(); err != nil || r.RoleName != "r" {
		t.Errorf("role %+v, %v", r, err)
	}
	if name, err := ask(GetAnonymousGroup()).AnonymousGroup(); err != nil || name != "g" {
		t.Errorf("anonymous group %q, %v", name, err)
	}
	if _, err := ask(GetRole("none")).Role(); broker.KindOf(err) != broker.NotFound {
		t.Errorf("a role that is not there: %v", err)
	}
}
