package remote

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

func TestCheckAccess(t *testing.T) {
	t.Parallel()
	b := connected(t, brokertest.Mosquitto(t).Target())
	ctx := t.Context()
	must(t, b.CreateRole(ctx, broker.RoleSpec{RoleName: "sensor", ACLs: []broker.ACL{
		{ACLType: broker.PublishClientSend, Topic: "plant/#", Allow: true},
		{ACLType: broker.PublishClientSend, Topic: "plant/no", Priority: 4},
	}}))
	must(t, b.CreateGroup(ctx, broker.GroupSpec{GroupName: "pumps", Roles: []broker.RoleRef{{RoleName: "sensor", Priority: 2}}}))
	must(t, b.CreateClient(ctx, broker.ClientSpec{Username: "pump", Groups: []broker.GroupRef{{GroupName: "pumps", Priority: broker.NoPriority}}}))
	must(t, b.CreateClient(ctx, broker.ClientSpec{Username: "off"}))
	must(t, b.DisableClient(ctx, "off"))

	for _, c := range []struct {
		username, topic string
		action          broker.Action
		allowed         bool
		source          broker.DecidedBy
		acl, role       string
	}{
		{"pump", "plant/1", broker.ActionPublish, true, broker.DecidedByACL, "plant/#", "sensor"},
		{"pump", "plant/no", broker.ActionPublish, false, broker.DecidedByACL, "plant/no", "sensor"},
		{"pump", "else", broker.ActionPublish, false, broker.DecidedByDefault, "", ""},
		{"pump", "else", broker.ActionReceive, true, broker.DecidedByDefault, "", ""},
		{"off", "else", broker.ActionReceive, false, broker.DecidedByDisabled, "", ""},
		{"nobody", "else", broker.ActionReceive, false, broker.DecidedByUnknown, "", ""},
		{"", "plant/1", broker.ActionPublish, false, broker.DecidedByDefault, "", ""},
		{"", "plant/1", broker.ActionUnsubscribe, true, broker.DecidedByDefault, "", ""},
	} {
		v, err := b.CheckAccess(ctx, broker.AccessCheck{Username: c.username, Action: c.action, Topic: c.topic})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		acl := ""
		if v.ACL != nil {
			acl = v.ACL.Topic
		}
		if v.Allowed != c.allowed || v.Source != c.source || acl != c.acl || v.RoleName != c.role {
			t.Errorf("%q, %s %q: got %+v", c.username, c.action, c.topic, v)
		}
	}
	v, err := b.CheckAccess(ctx, broker.AccessCheck{Username: "pump", Action: broker.ActionPublish, Topic: "plant/1"})
	if err != nil || v.Via != broker.ViaGroup || v.GroupName != "pumps" || v.GroupPriority != nil || v.RolePriority == nil || *v.RolePriority != 2 {
		t.Errorf("how the client has the role: %+v, %v", v, err)
	}
}

// levels make topics that often match.
var levels = []string{"a", "b", "c"}

// randomPath returns a topic or, with wildcards, a filter.
func randomPath(rng *rand.Rand, wildcards bool) string {
	path := make([]string, 1+rng.IntN(3))
	for i := range path {
		path[i] = levels[rng.IntN(len(levels))]
		if wildcards && rng.IntN(3) == 0 {
			path[i] = "+"
		}
	}
	if wildcards && rng.IntN(3) == 0 {
		path[len(path)-1] = "#"
	}
	return strings.Join(path, "/")
}

// randomRoles creates roles, and assigns them to the client directly or through groups.
// The first role allows what the test itself needs: to connect, and to read all
// retained messages.
func randomRoles(t *testing.T, admin *Broker, rng *rand.Rand) {
	t.Helper()
	spec := broker.ClientSpec{Username: "u", Password: new(broker.Secret("pw")), Roles: []broker.RoleRef{{RoleName: "first", Priority: 100}}}
	first := []broker.ACL{{ACLType: broker.SubscribeLiteral, Topic: "#", Allow: true}}
	for _, acl := range brokertest.AdminRole("").ACLs {
		if acl.Topic != "#" {
			first = append(first, acl)
		}
	}
	must(t, admin.CreateRole(t.Context(), broker.RoleSpec{RoleName: "first", ACLs: first}))
	types := []broker.ACLType{broker.PublishClientSend, broker.PublishClientReceive, broker.SubscribeLiteral, broker.SubscribePattern}
	for i := range 6 {
		role := broker.RoleSpec{RoleName: fmt.Sprint("r", i)}
		for range 2 + rng.IntN(6) {
			role.ACLs = append(role.ACLs, broker.ACL{ACLType: types[rng.IntN(len(types))], Topic: randomPath(rng, true),
				Priority: rng.IntN(3), Allow: rng.IntN(2) == 0})
		}
		must(t, admin.CreateRole(t.Context(), role))
		ref := broker.RoleRef{RoleName: role.RoleName, Priority: broker.Priority(rng.IntN(3))}
		if i%2 == 0 {
			spec.Roles = append(spec.Roles, ref)
			continue
		}
		group := fmt.Sprint("g", i)
		must(t, admin.CreateGroup(t.Context(), broker.GroupSpec{GroupName: group, Roles: []broker.RoleRef{ref}}))
		spec.Groups = append(spec.Groups, broker.GroupRef{GroupName: group, Priority: broker.Priority(rng.IntN(2))})
	}
	must(t, admin.CreateClient(t.Context(), spec))
}

// TestCheckAccess_is_what_Mosquitto_does compares the check with what the client can
// do: the retained messages that it receives, those that it can publish, and its
// subscriptions.
func TestCheckAccess_is_what_Mosquitto_does(t *testing.T) {
	t.Parallel()
	verdicts := map[bool]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 5))
		server := brokertest.Mosquitto(t)
		admin := connected(t, server.Target())
		randomRoles(t, admin, rng)
		target := server.Target()
		target.Username, target.Password = "u", "pw"
		client := connected(t, target)

		var topics []string
		for range 40 {
			topics = append(topics, randomPath(rng, false))
		}
		attempts := map[broker.Action]map[string]bool{
			broker.ActionReceive: retainedFor(t, client, admin, topics), broker.ActionPublish: retainedFor(t, admin, client, topics),
			broker.ActionSubscribe: {},
		}
		for range 12 {
			filter := randomPath(rng, true)
			_, err := client.ListRetained(t.Context(), filter, 0, 0)
			attempts[broker.ActionSubscribe][filter] = err == nil
		}
		for action, tried := range attempts {
			for topic, granted := range tried {
				v, err := admin.CheckAccess(t.Context(), broker.AccessCheck{Username: "u", Action: action, Topic: topic})
				if err != nil {
					t.Fatal(err)
				}
				if v.Allowed != granted {
					t.Errorf("seed %d, %s %q: Mosquitto grants it: %v; we say %+v", seed, action, topic, granted, v)
				}
				verdicts[v.Allowed]++
			}
		}
	}
	if verdicts[true] < 20 || verdicts[false] < 20 {
		t.Errorf("the questions are lopsided: %v", verdicts)
	}
}

// retainedFor returns which topics a reader sees retained after a writer wrote to all
// of them, and clears them again.
func retainedFor(t *testing.T, reader, writer *Broker, topics []string) map[string]bool {
	t.Helper()
	granted := map[string]bool{}
	for _, topic := range topics {
		must(t, writer.send(t.Context(), "publish", &call{topic: topic, payload: []byte("x"), qos: 1, retain: true})) // independent of the rights that are known
		granted[topic] = false
	}
	_, seen := retainedTopics(t, reader, "#", 0, -1)
	for _, topic := range seen {
		granted[topic] = true
	}
	for _, b := range []*Broker{reader, writer} { // either of them may be allowed to
		b.DeleteRetainedMatching(t.Context(), "#") //nolint:errcheck // the client may not delete what it may not write
	}
	return granted
}
