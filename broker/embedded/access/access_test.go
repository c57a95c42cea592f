package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/scripts/suite"
)

// iterations keeps hashing cheap where its cost does not matter.
const iterations = 10

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(dir)
		return
	}
	suite.Main(m)
}

// open opens the access control of a test and closes it at the end.
func open(t testing.TB, path string) *Control {
	t.Helper()
	c, err := Open(t.Context(), Options{Path: path, PasswordIterations: iterations})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, c) })
	return c
}

// fresh opens an empty access control.
func fresh(t testing.TB) *Control {
	t.Helper()
	return open(t, filepath.Join(t.TempDir(), "broker.db"))
}

// restarted closes and opens the access control of a file, and expects the same content in the file and in
// memory, before and after that.
func restarted(t testing.TB, c *Control, path string) *Control {
	t.Helper()
	before := export(t, c)
	if diff := cmp.Diff(before, inMemory(t, c)); diff != "" {
		t.Errorf("file (-) and memory (+):\n%s", diff)
	}
	shut(t, c)
	c = open(t, path)
	if diff := cmp.Diff(before, inMemory(t, c)); diff != "" {
		t.Errorf("before (-) and after (+) the restart:\n%s", diff)
	}
	return c
}

func shut(t testing.TB, c *Control) {
	t.Helper()
	if err := c.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func wantKind(t testing.TB, err error, want broker.Kind) {
	t.Helper()
	if err == nil || broker.KindOf(err) != want {
		t.Fatalf("got error %v of kind %v, want kind %v", err, broker.KindOf(err), want)
	}
}

// command sends one request to $CONTROL and returns the response as text.
func command(t testing.TB, c *Control, commands string) string {
	t.Helper()
	answer, _ := c.Handle(t.Context(), fmt.Appendf(nil, `{"commands":[%s]}`, commands))
	return string(answer)
}

// client returns the spec of a client with password "secret" and these roles.
func client(username string, roles ...string) broker.ClientSpec {
	password := broker.Secret("secret")
	return broker.ClientSpec{Username: username, Password: &password, Roles: roleRefs(roles)}
}

func roleRefs(roles []string) (refs []broker.RoleRef) {
	for _, r := range roles {
		refs = append(refs, broker.RoleRef{RoleName: r, Priority: broker.NoPriority})
	}
	return refs
}

// role returns the spec of a role that allows publishing to these topics.
func role(rolename string, topics ...string) broker.RoleSpec {
	acls := []broker.ACL{}
	for _, topic := range topics {
		acls = append(acls, broker.ACL{ACLType: broker.PublishClientSend, Topic: topic, Allow: true})
	}
	return broker.RoleSpec{RoleName: rolename, ACLs: acls}
}

// export returns the configuration in the file, as text.
func export(t testing.TB, c *Control) string {
	t.Helper()
	b, err := inFile(t, c).Marshal()
	must(t, err)
	return string(b)
}

func inFile(t testing.TB, c *Control) dynsec.Document {
	t.Helper()
	tx, err := c.store.bulk.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback() //nolint:errcheck // read only
	state, _, err := loadState(t.Context(), tx)
	must(t, err)
	passwords, err := loadPasswords(t.Context(), tx)
	must(t, err)
	return state.Document(func(username string) string { return passwords[username] })
}

// inMemory returns the published configuration as text, with the stored hashes.
func inMemory(t testing.TB, c *Control) string {
	t.Helper()
	hash := map[string]string{}
	for _, cl := range inFile(t, c).Clients {
		hash[cl.Username] = cl.EncodedPassword
	}
	b, err := c.state.Load().Document(func(u string) string { return hash[u] }).Marshal()
	must(t, err)
	return string(b)
}

func TestBootstrap(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	if c.Initialised() {
		t.Fatal("a new broker counts as set up")
	}
	wantKind(t, c.Bootstrap(t.Context(), "boss", ""), broker.Invalid)
	must(t, c.Bootstrap(t.Context(), "boss", "secret"))
	wantKind(t, c.Bootstrap(t.Context(), "other", "secret"), broker.Exists)
	shut(t, c)

	c = open(t, path)
	if !c.Initialised() {
		t.Error("a broker that was set up does not count as such after a restart")
	}
	a, err := c.Authenticate(t.Context(), Credentials{Username: "boss", HasUsername: true, Password: []byte("secret"), HasPassword: true})
	must(t, err)
	defer a.Release()
	for ev := range []dynsec.Event{dynsec.PublishSend, dynsec.PublishReceive} {
		for _, topic := range []string{"$CONTROL/dynamic-security/v1", "$SYS/broker/uptime", "a/b"} {
			if !a.Allowed(dynsec.Event(ev), "id", topic) {
				t.Errorf("event %v on %s is denied to the administrator", ev, topic)
			}
		}
	}
	for _, filter := range []string{"$CONTROL/#", "$SYS/#", "#", "a/+"} {
		if !a.Allowed(dynsec.Subscribe, "id", filter) || !a.Allowed(dynsec.Unsubscribe, "id", filter) {
			t.Errorf("(un)subscribing to %s is denied to the administrator", filter)
		}
	}
	if got, want := c.state.Load().Defaults(), dynsec.DefaultDefaults(); got != want {
		t.Errorf("default access is %+v, want %+v", got, want)
	}
}

func TestBootstrapRefusesInvalidNames(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	wantKind(t, c.Bootstrap(t.Context(), "", "secret"), broker.Invalid)
	if c.Initialised() || len(c.state.Load().Document(func(string) string { return "" }).Roles) > 0 {
		t.Error("half of it was kept")
	}
}

// TestEverythingIsStored makes every kind of change and expects the same configuration in
// memory, in the file, and after a restart.
func TestEverythingIsStored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	for i, commands := range []string{
		`{"command":"createRole","rolename":"r1","textname":"One","textdescription":"D","allowwildcardsubs":false,"acls":[
			{"acltype":"publishClientSend","topic":"a/#","priority":3,"allow":true},
			{"acltype":"subscribePattern","topic":"%c/#","priority":-2},
			{"acltype":"publishClientSend","topic":"b","priority":3}]}`,
		`{"command":"createRole","rolename":"r2"},{"command":"createRole","rolename":"r3"}`,
		`{"command":"addRoleACL","rolename":"r2","acltype":"unsubscribeLiteral","topic":"x","allow":true}`,
		`{"command":"createGroup","groupname":"g1","textname":"","roles":[{"rolename":"r2","priority":1},{"rolename":"r1"}]}`,
		`{"command":"createGroup","groupname":"g2"},{"command":"createGroup","groupname":"g3"}`,
		`{"command":"createClient","username":"c1","password":"p","clientid":"only","textname":"Ä","roles":[{"rolename":"r3","priority":7},{"rolename":"r1"}],
			"groups":[{"groupname":"g1","priority":2},{"groupname":"g3"}]}`,
		`{"command":"createClient","username":"c2"},{"command":"createClient","username":"c3","password":"p"}`,
		`{"command":"disableClient","username":"c2"}`,
		`{"command":"setClientPassword","username":"c3","password":"q"}`,
		`{"command":"modifyClient","username":"c1","textdescription":"changed"}`,
		`{"command":"modifyGroup","groupname":"g2","clients":[{"username":"c1"},{"username":"c2","priority":5}]}`,
		`{"command":"setAnonymousGroup","groupname":"g2"}`,
		`{"command":"setDefaultACLAccess","acls":[{"acltype":"subscribe","allow":true},{"acltype":"unsubscribe","allow":false}]}`,
		`{"command":"addGroupRole","groupname":"g2","rolename":"r3"}`,
		`{"command":"deleteRole","rolename":"r3"}`,
		`{"command":"deleteGroup","groupname":"g3"}`,
		`{"command":"deleteClient","username":"c3"},{"command":"createClient","username":"c3"}`,
		`{"command":"removeRoleACL","rolename":"r1","acltype":"publishClientSend","topic":"b"}`,
	} {
		if got := command(t, c, commands); strings.Contains(got, "error") {
			t.Fatalf("step %d: %s", i, got)
		}
		if diff := cmp.Diff(inMemory(t, c), export(t, c)); diff != "" {
			t.Fatalf("step %d (%s): what is in memory (-) is not what is stored (+):\n%s", i, commands, diff)
		}
	}
	want := export(t, c)
	shut(t, c)
	again := open(t, path)
	if diff := cmp.Diff(want, inMemory(t, again)); diff != "" {
		t.Errorf("before (-) and after (+) the restart:\n%s", diff)
	}
	if _, _, has, _ := again.state.Load().Login("c3"); has {
		t.Error("a client that was created again has its predecessor's password")
	}
}

func TestHandle(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	for _, tc := range []struct{ name, request, want string }{
		{"a read sees the write before it",
			`{"commands":[{"command":"createRole","rolename":"r"},{"command":"listRoles"}]}`,
			`{"responses":[{"command":"createRole"},{"command":"listRoles","data":{"totalCount":1,"roles":["r"]}}]}`},
		{"a failure stops nothing",
			`{"commands":[{"command":"createRole","rolename":"r"},{"command":"createGroup","groupname":"g"}]}`,
			`{"responses":[{"command":"createRole","error":"Role already exists"},{"command":"createGroup"}]}`},
		{"only reading",
			`{"commands":[{"command":"listGroups","correlationData":"7"}]}`,
			`{"responses":[{"command":"listGroups","data":{"totalCount":1,"groups":["g"]},"correlationData":"7"}]}`},
		{"what comes before a malformed command is done",
			`{"commands":[{"command":"createRole","rolename":"r2"},17,{"command":"createRole","rolename":"r3"}]}`,
			`{"responses":[{"command":"createRole"},{"command":"Unknown command","error":"Command not an object"}]}`},
		{"only the well-formed was done",
			`{"commands":[{"command":"listRoles"}]}`,
			`{"responses":[{"command":"listRoles","data":{"totalCount":2,"roles":["r","r2"]}}]}`},
		{"not JSON", `x`,
			`{"responses":[{"command":"Unknown command","error":"Payload not valid JSON"}]}`},
	} {
		if got, _ := c.Handle(t.Context(), []byte(tc.request)); string(got) != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestHandleReturnsDisconnects(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	c.OnDisconnect(func(disconnects []dynsec.Disconnect) { t.Errorf("got %v, though the caller has them", disconnects) })
	command(t, c, `{"command":"createClient","username":"u"}`)
	_, disconnects := c.Handle(t.Context(), []byte(`{"commands":[{"command":"disableClient","username":"u"}]}`))
	if want := []dynsec.Disconnect{{Username: "u"}}; !slices.Equal(disconnects, want) {
		t.Errorf("got disconnects %v, want %v", disconnects, want)
	}
}

func TestAPIChangesReportDisconnects(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	var told []dynsec.Disconnect
	c.OnDisconnect(func(disconnects []dynsec.Disconnect) { told = append(told, disconnects...) })
	must(t, c.CreateClient(t.Context(), client("u")), c.DisableClient(t.Context(), "u"))
	if want := []dynsec.Disconnect{{Username: "u"}}; !slices.Equal(told, want) {
		t.Errorf("got %v, want %v", told, want)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), fresh(t)
	text, empty := "text", ""
	must(t,
		c.CreateRole(ctx, role("r1", "a/#")), c.CreateRole(ctx, role("r2")),
		c.CreateGroup(ctx, broker.GroupSpec{GroupName: "g", TextName: &text, Roles: roleRefs([]string{"r1"})}),
		c.CreateClient(ctx, client("u", "r1")),
		c.ModifyClient(ctx, broker.ClientSpec{Username: "u", ClientID: &text, TextName: &empty,
			Groups: []broker.GroupRef{{GroupName: "g", Priority: 4}}}),
		c.DisableClient(ctx, "u"),
		c.ModifyGroup(ctx, broker.GroupSpec{GroupName: "g", Roles: roleRefs([]string{"r2"})}),
		c.ModifyRole(ctx, broker.RoleSpec{RoleName: "r2", TextDescription: &text}),
		c.SetDefaultACLAccess(ctx, []broker.DefaultACL{{ACLType: "subscribe", Allow: true}}),
	)
	got, err := c.GetClient(ctx, "u")
	must(t, err)
	want := broker.Client{Username: "u", ClientID: "text", TextName: &empty, Disabled: true,
		Roles:       roleRefs([]string{"r1"}),
		Groups:      []broker.GroupRef{{GroupName: "g", Priority: 4}},
		Connections: []broker.Connection{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("getClient (-want +got):\n%s", diff)
	}
	defaults, err := c.GetDefaultACLAccess(ctx)
	must(t, err)
	if diff := cmp.Diff([]broker.DefaultACL{{ACLType: "publishClientSend"}, {ACLType: "publishClientReceive", Allow: true},
		{ACLType: "subscribe", Allow: true}, {ACLType: "unsubscribe", Allow: true}}, defaults); diff != "" {
		t.Errorf("getDefaultACLAccess (-want +got):\n%s", diff)
	}
	must(t, c.EnableClient(ctx, "u"), c.DeleteClient(ctx, "u"), c.DeleteGroup(ctx, "g"), c.DeleteRole(ctx, "r1"))
	for op, err := range map[string]error{
		"getClient": second(c.GetClient(ctx, "u")), "modifyClient": c.ModifyClient(ctx, client("u")),
		"deleteClient": c.DeleteClient(ctx, "u"), "enableClient": c.EnableClient(ctx, "u"),
		"disableClient": c.DisableClient(ctx, "u"), "modifyGroup": c.ModifyGroup(ctx, broker.GroupSpec{GroupName: "g"}),
		"deleteGroup": c.DeleteGroup(ctx, "g"), "modifyRole": c.ModifyRole(ctx, role("r1")), "deleteRole": c.DeleteRole(ctx, "r1"),
	} {
		e, ok := errors.AsType[*broker.Error](err)
		if !ok || e.Kind != broker.NotFound || e.Op != op {
			t.Errorf("%s of what does not exist: got %v (%+v)", op, err, e)
		}
	}
	wantKind(t, c.CreateRole(ctx, role("r2")), broker.Exists)
	wantKind(t, c.CreateClient(ctx, client("u", "nowhere")), broker.NotFound)
	wantKind(t, c.CreateClient(ctx, client("")), broker.Invalid)
}

func second[T any](_ T, err error) error { return err }
