package dynsec

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// comparable fields of the package's own types, for whole-value comparison.
var unexported = gocmp.AllowUnexported(arguments{}, ref{}, aclArg{}, arg[string]{}, arg[int]{}, arg[bool]{}, arg[[]ref]{}, arg[[]aclArg]{})

func ptr[T any](v T) *T { return &v }

// typedCommands is every constructor, with all members and with none.
func typedCommands() []Command {
	secret := broker.Secret("pw\n\"\x01ü")
	client := broker.ClientSpec{
		Username: "u", Password: &secret, ClientID: ptr("id"), TextName: ptr(""), TextDescription: ptr("d"),
		Roles:  []broker.RoleRef{{RoleName: "r", Priority: 3}, {RoleName: "s", Priority: broker.NoPriority}},
		Groups: []broker.GroupRef{{GroupName: "g", Priority: 0}},
	}
	group := broker.GroupSpec{
		GroupName: "g", TextName: ptr("t"), Roles: []broker.RoleRef{},
		Clients: []broker.MemberRef{{Username: "u", Priority: -5}},
	}
	role := broker.RoleSpec{
		RoleName: "r", AllowWildcardSubs: ptr(false),
		ACLs: []broker.ACL{{ACLType: broker.SubscribePattern, Topic: "a/#", Priority: -1, Allow: true}},
	}
	return []Command{
		CreateClient(client), ModifyClient(client), CreateClient(broker.ClientSpec{Username: "v"}), ModifyClient(broker.ClientSpec{Username: "v", Groups: []broker.GroupRef{}}),
		DeleteClient("u"), EnableClient("u"), DisableClient("u"), GetClient("u"), ListClients(true, -1, 0), ListClients(false, 10, 20),
		CreateGroup(group), ModifyGroup(group), DeleteGroup("g"), ListGroups(true, 1, 2),
		CreateRole(role), ModifyRole(role), CreateRole(broker.RoleSpec{RoleName: "s"}), DeleteRole("r"), ListRoles(false, -1, 0),
		SetDefaultACLAccess([]broker.DefaultACL{{ACLType: "subscribe", Allow: true}, {ACLType: "unsubscribe"}}), GetDefaultACLAccess(),
	}
}

func TestTypedCommandIsTheSameOnTheWire(t *testing.T) {
	t.Parallel()
	var want []Command
	for i, c := range typedCommands() {
		want = append(want, c.WithCorrelation(fmt.Sprint(i)))
	}
	payload := EncodeRequest(want)
	if !json.Valid(payload) || strings.Contains(string(payload), "null") {
		t.Fatalf("not sound: %s", payload)
	}
	got := DecodeRequest(payload)
	if got.Fault != nil || len(got.Commands) != len(want) {
		t.Fatalf("decoded %d commands, fault %v; want %d", len(got.Commands), got.Fault, len(want))
	}
	for i, c := range got.Commands {
		w := want[i]
		if c.Name() != w.Name() || c.Mutates() != w.Mutates() {
			t.Errorf("got %s, want %s", c, w)
		}
		if id, ok := c.CorrelationData(); !ok || id != fmt.Sprint(i) {
			t.Errorf("%s: correlation %q, %t", c, id, ok)
		}
		if diff := gocmp.Diff(w.args, c.args, unexported); diff != "" {
			t.Errorf("%s (-sent +came):\n%s", c, diff)
		}
	}
}

func TestCreateClientSpecTakesTheFirstOfTwoGroups(t *testing.T) {
	t.Parallel()
	c := CreateClient(broker.ClientSpec{Username: "u", Groups: []broker.GroupRef{{GroupName: "g", Priority: 1}, {GroupName: "g", Priority: 2}}})
	tx := NewState().Begin()
	tx.Do(CreateGroup(broker.GroupSpec{GroupName: "g"}), nil)
	if err := tx.Do(c, nil).Err(); err != nil {
		t.Fatal(err)
	}
	next, _, _ := tx.End()
	got, _ := next.Client("u")
	if want := []broker.GroupRef{{GroupName: "g", Priority: 1}}; !gocmp.Equal(got.Groups, want) {
		t.Errorf("groups %v, want %v", got.Groups, want)
	}
}

func TestCommandDoesNotShowItsPassword(t *testing.T) {
	t.Parallel()
	secret := broker.Secret("hunter2")
	c := CreateClient(broker.ClientSpec{Username: "u", Password: &secret})
	c.SetPasswordHash("hunter2hash")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, v := range []any{c, &c, []Command{c}, Request{Commands: []Command{c}}} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, "hunter2") {
				t.Errorf("%s of %T shows the password: %s", verb, v, got)
			}
		}
	}
}

func TestPasswordToHash(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		`{"command":"createClient","password":"p"}`:      "p",
		`{"command":"createClient","password":""}`:       "",
		`{"command":"createClient"}`:                     "-",
		`{"command":"createClient","password":5}`:        "-",
		`{"command":"modifyClient","password":"p"}`:      "p",
		`{"command":"modifyClient","password":""}`:       "-",
		`{"command":"setClientPassword","password":"p"}`: "p",
		`{"command":"setClientPassword","password":""}`:  "-",
		`{"command":"getClient","password":"p"}`:         "-",
		`{"command":"nonsense","password":"p"}`:          "-",
	} {
		c := DecodeRequest([]byte(`{"commands":[` + request + `]}`)).Commands[0]
		got, ok := c.PasswordToHash()
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: %q to hash, want %q", request, got, want)
		}
	}
}

func TestPasswordIsNeverStoredUnhashed(t *testing.T) {
	t.Parallel()
	secret := broker.Secret("p")
	tx := NewState().Begin()
	a := tx.Do(CreateClient(broker.ClientSpec{Username: "u", Password: &secret}), nil)
	_, changes, _ := tx.End()
	if a.Error == "" || len(changes) != 0 {
		t.Errorf("a password without its hash was answered %q and made %v", a.Error, changes)
	}
}

func TestDecodeRequestNumbersAndTexts(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		`{"command":"addRoleACL","rolename":"r","acltype":"publishClientSend","topic":"t","priority":1e300}`:  `"priority":100000`,
		`{"command":"addRoleACL","rolename":"r","acltype":"publishClientSend","topic":"t","priority":-1e999}`: `"priority":-100000`,
		`{"command":"addRoleACL","rolename":"r","acltype":"publishClientSend","topic":"t","priority":-2.9}`:   `"priority":-2`,
		`{"command":"modifyRole","rolename":"r","textname":"\ud83d\ude00\/\u00e9"}`:                           `"textname":"😀/é"`,
		`{"command":"modifyRole","rolename":"r","textname":"\u0001\b\f\n\r\t\"\\"}`:                           `"textname":"\u0001\b\f\n\r\t\"\\"`,
		"{\"command\":\"modifyRole\",\"rolename\":\"r\",\"textname\":\"\xff\"}":                               `"rolename":"r","allow`,
		`{"command":"addRoleACL","rolename":"r","acltype":"publishClientSend","topic":"t","access":"ALLOW"}`:  `"allow":true`,
		`{"command":"addRoleACL","rolename":"r","acltype":"publishClientSend","topic":"t","access":"deny"}`:   `"allow":false`,
	} {
		tx := NewState().Begin()
		tx.Do(CreateRole(broker.RoleSpec{RoleName: "r"}), nil)
		tx.Do(DecodeRequest([]byte(`{"commands":[` + request + `]}`)).Commands[0], nil)
		if got := string(EncodeResponses([]Response{tx.Do(ofRole(opGetRole, "r"), nil)})); !strings.Contains(got, want) {
			t.Errorf("%s:\ngot %s\nwithout %s", request, got, want)
		}
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{`, `[`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,}`, `[1,]`, `[1 2]`, `{a:1}`, `"`, `"\`, `"\u12`, `"\uzzzz"`, `"\x"`,
		`"\ud800"`, `"\ud800x"`, `"\ud800\u0041"`, `"\udc00"`, `1-2`, `--1`, `tru`, `nul`, `+1`, `.5`,
		strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000),
	} {
		r := DecodeRequest([]byte(payload))
		if r.Fault == nil || r.Fault.Error != string(errNotJSON) {
			t.Errorf("%.40q: fault %v, want %q", payload, r.Fault, errNotJSON)
		}
	}
}

func FuzzDecodeRequest(f *testing.F) {
	for _, e := range readTranscript(f) {
		f.Add([]byte(e.Request))
	}
	f.Add(EncodeRequest(typedCommands()))
	s := freshBroker(f)
	f.Fuzz(func(t *testing.T, payload []byte) {
		answer, next, changes, _ := run(s, payload, nil)
		if !json.Valid(answer) {
			t.Fatalf("%q is answered with what is not JSON: %q", payload, answer)
		}
		r := DecodeRequest(payload)
		want := len(r.Commands)
		if r.Fault != nil {
			want++
		}
		answers, err := DecodeResponses(answer)
		if err != nil || len(answers) != want {
			t.Fatalf("%q: %d answers, %v; want %d", payload, len(answers), err, want)
		}
		checkChanges(t, string(payload), s, next, changes)
	})
}
