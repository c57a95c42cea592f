package access

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// generator generates commands over few names, so that they interact.
type generator struct{ *rand.Rand }

func (d generator) name(kind string) string { return fmt.Sprintf("%s%d", kind, d.IntN(5)) }

func (d generator) pick(s ...any) any { return s[d.IntN(len(s))] }

// list returns up to three references of a kind.
func (d generator) list(key, kind string) any {
	l := []any{}
	for range d.IntN(4) {
		l = append(l, map[string]any{key: d.name(kind), "priority": d.pick(-1, 0, 5)})
	}
	return l
}

func (d generator) acls() any {
	l := []any{}
	for range d.IntN(4) {
		l = append(l, map[string]any{"acltype": d.aclType(), "topic": d.topic(), "allow": d.pick(true, false), "priority": d.pick(-2, 0, 5)})
	}
	return l
}

func (d generator) aclType() any {
	return d.pick("publishClientSend", "publishClientReceive", "subscribePattern", "subscribeLiteral", "unsubscribePattern")
}

func (d generator) topic() any { return d.pick("a", "a/#", "b/+", "%c/x", "%u/#", "#") }

// commands are all that change something, those that create more often.
var commands = []string{
	"createClient", "createClient", "createGroup", "createGroup", "createRole", "createRole", "deleteClient", "deleteGroup", "deleteRole",
	"modifyClient", "modifyGroup", "modifyRole", "setClientPassword", "setClientId", "enableClient", "disableClient",
	"addClientRole", "removeClientRole", "addGroupClient", "removeGroupClient", "addGroupRole", "removeGroupRole",
	"addRoleACL", "removeRoleACL", "setAnonymousGroup", "setDefaultACLAccess",
}

// command generates one, with arguments that are valid for many of them.
func (d generator) command() map[string]any {
	m := map[string]any{
		"command": commands[d.IntN(len(commands))], "username": d.name("c"), "groupname": d.name("g"), "rolename": d.name("r"),
		"acltype": d.aclType(), "topic": d.topic(), "allow": d.pick(true, false), "priority": d.pick(-1, 0, 9),
	}
	for _, optional := range []struct {
		key   string
		value any
	}{
		{"roles", d.list("rolename", "r")}, {"groups", d.list("groupname", "g")}, {"acls", d.acls()},
		{"password", d.pick("one", "two")}, {"clientid", d.pick("", "id")}, {"textname", d.pick("", "Ä")},
		{"allowwildcardsubs", d.pick(true, false)},
	} {
		if d.IntN(2) == 0 {
			m[optional.key] = optional.value
		}
	}
	if m["command"] == "setDefaultACLAccess" {
		m["acls"] = []any{map[string]any{"acltype": d.pick("publishClientSend", "subscribe"), "allow": d.pick(true, false)}}
	}
	return m
}

func (d generator) request(t testing.TB) []byte {
	t.Helper()
	batch := []any{d.command()}
	for range d.IntN(3) {
		batch = append(batch, d.command())
	}
	b, err := json.Marshal(map[string]any{"commands": batch})
	must(t, err)
	return b
}

// hashes are what differs between brokers that execute the same commands independently.
var hashes = regexp.MustCompile(`"encoded_password": "[^"]*"`)

// TestHistories decides random histories on one node, which a second follows step by step,
// a third now and then, and a fourth decides independently. In the end all must have the
// same rights, and the first three the same state, byte by byte.
func TestHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			d := generator{rand.New(rand.NewPCG(seed, 5))}
			l, nodes := sharedNodes(t, 2)
			late, alone := fresh(t), fresh(t)
			for range 150 {
				request := d.request(t)
				got, _ := nodes[0].Handle(t.Context(), request)
				want, _ := alone.Handle(t.Context(), request)
				if string(got) != string(want) {
					t.Fatalf("%s:\n through a log %s\n by itself     %s", request, got, want)
				}
				if d.IntN(20) == 0 {
					l.catchUp(t, late)
				}
			}
			importSomething(t, d, nodes[0], alone)
			l.catchUp(t, late)
			for _, n := range []*Control{nodes[1], late} {
				wantSame(t, "in the end", nodes[0], n)
				wantSameRights(t, nodes[0], n)
			}
			mask := func(c *Control) string { return hashes.ReplaceAllString(export(t, c), `"encoded_password": "-"`) }
			if diff := cmp.Diff(mask(alone), mask(nodes[0])); diff != "" {
				t.Errorf("by itself (-) and through a log (+):\n%s", diff)
			}
			if clients, _, roles := alone.state.Load().Counts(); clients == 0 || roles == 0 {
				t.Error("the history leads to nothing")
			}
		})
	}
}

// importSomething imports a file, merging or replacing.
func importSomething(t *testing.T, d generator, nodes ...*Control) {
	t.Helper()
	replace := d.IntN(2) == 0
	for _, n := range nodes {
		_, err := n.ImportAccess(t.Context(), strings.NewReader(`{"clients":[{"username":"imported","roles":[{"rolename":"imported"}]}],
			"roles":[{"rolename":"imported","acls":[{"acltype":"publishClientSend","topic":"a","allow":true}]}]}`), replace)
		must(t, err)
	}
}

// wantSameRights compares all rights of two nodes.
func wantSameRights(t *testing.T, a, b *Control) {
	t.Helper()
	usernames := []string{"", "imported"}
	for i := range 5 {
		usernames = append(usernames, fmt.Sprint("c", i))
	}
	for _, username := range usernames {
		for _, topic := range []string{"a", "a/b", "b/c", "id/x", "c1/y", "$SYS/z"} {
			for _, action := range []broker.Action{broker.ActionPublish, broker.ActionReceive, broker.ActionSubscribe} {
				q := broker.AccessCheck{Username: username, ClientID: "id", Action: action, Topic: topic}
				va, errA := a.CheckAccess(t.Context(), q)
				vb, errB := b.CheckAccess(t.Context(), q)
				must(t, errA, errB)
				if diff := cmp.Diff(va, vb); diff != "" {
					t.Fatalf("%+v:\n%s", q, diff)
				}
			}
		}
	}
}

// TestEveryCommandIsInTheHistories fails if a kind of change is missing from the histories.
func TestEveryCommandIsInTheHistories(t *testing.T) {
	t.Parallel()
	d := generator{rand.New(rand.NewPCG(1, 1))}
	l, nodes := sharedNodes(t, 1)
	seen := map[string]bool{}
	for range 400 {
		nodes[0].Handle(t.Context(), d.request(t))
	}
	for _, change := range l.entries {
		set, err := decodeChangeSet(change)
		must(t, err)
		for _, ch := range set.changes {
			seen[fmt.Sprintf("%T", ch)] = true
		}
	}
	kinds := []string{"PutClient", "DropClient", "PutGroup", "DropGroup", "PutRole", "DropRole", "PutDefaults", "PutAnonymousGroup", "PutChangeIndex"}
	if i := slices.IndexFunc(kinds, func(k string) bool { return !seen["dynsec."+k] }); i >= 0 {
		t.Errorf("no history holds a %s", kinds[i])
	}
}
