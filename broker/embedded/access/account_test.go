package access

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// TestAccountFollowsChanges holds accounts during changes of every kind that changes
// rights, and expects the effect at once.
func TestAccountFollowsChanges(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	setUp := func(commands string) {
		t.Helper()
		command(t, c, commands)
	}
	setUp(`{"command":"createRole","rolename":"own"},{"command":"createRole","rolename":"grouped"},
		{"command":"createGroup","groupname":"g","roles":[{"rolename":"grouped"}]},
		{"command":"createGroup","groupname":"anons"},{"command":"setAnonymousGroup","groupname":"anons"},
		{"command":"createClient","username":"u","password":"secret","roles":[{"rolename":"own"}]},
		{"command":"createClient","username":"bystander","password":"secret"}`)
	u, bystander, anonymous := authenticated(t, c, "u"), authenticated(t, c, "bystander"), c.Anonymous()
	for _, step := range []struct {
		commands                     string
		topic                        string
		mine, bystanders, anonymouss bool
	}{
		{`{"command":"listClients"}`, "t", false, false, false},
		{`{"command":"addRoleACL","rolename":"own","acltype":"publishClientSend","topic":"t","allow":true}`, "t", true, false, false},
		{`{"command":"removeRoleACL","rolename":"own","acltype":"publishClientSend","topic":"t"}`, "t", false, false, false},
		{`{"command":"modifyRole","rolename":"grouped","acls":[{"acltype":"publishClientSend","topic":"t","allow":true}]}`, "t", false, false, false},
		{`{"command":"addGroupClient","groupname":"g","username":"u"}`, "t", true, false, false},
		{`{"command":"removeGroupRole","groupname":"g","rolename":"grouped"}`, "t", false, false, false},
		{`{"command":"addGroupRole","groupname":"g","rolename":"grouped"}`, "t", true, false, false},
		{`{"command":"addGroupRole","groupname":"anons","rolename":"grouped"}`, "t", true, false, true},
		{`{"command":"modifyGroup","groupname":"g","clients":[{"username":"bystander"}]}`, "t", false, true, true},
		{`{"command":"setAnonymousGroup","groupname":"g"}`, "t", false, true, true},
		{`{"command":"addClientRole","username":"u","rolename":"grouped"}`, "t", true, true, true},
		{`{"command":"deleteRole","rolename":"grouped"}`, "t", false, false, false},
		{`{"command":"setDefaultACLAccess","acls":[{"acltype":"publishClientSend","allow":true}]}`, "t", true, true, true},
		{`{"command":"deleteClient","username":"u"}`, "t", false, true, true},
		{`{"command":"createClient","username":"u"}`, "t", true, true, true},
	} {
		setUp(step.commands)
		for who, check := range map[string]struct {
			account *Account
			want    bool
		}{"u": {u, step.mine}, "bystander": {bystander, step.bystanders}, "anonymous": {anonymous, step.anonymouss}} {
			if got := check.account.Allowed(dynsec.PublishSend, "id", step.topic); got != check.want {
				t.Errorf("after %s: %s may publish: %v, want %v", step.commands, who, got, check.want)
			}
		}
	}
}

func TestDeletedClientHasNoRights(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	command(t, c, `{"command":"createClient","username":"u","password":"secret"},{"command":"setDefaultACLAccess","acls":[
		{"acltype":"publishClientSend","allow":true},{"acltype":"subscribe","allow":true}]}`)
	a := authenticated(t, c, "u")
	events := []dynsec.Event{dynsec.PublishSend, dynsec.PublishReceive, dynsec.Subscribe, dynsec.Unsubscribe}
	for _, ev := range events {
		if !a.Allowed(ev, "id", "t") {
			t.Errorf("event %v is denied before", ev)
		}
	}
	must(t, c.DeleteClient(t.Context(), "u"))
	for _, ev := range events {
		if a.Allowed(ev, "id", "t") {
			t.Errorf("event %v is allowed to a client that was deleted", ev)
		}
	}
}

func TestImportRefreshesAllAccounts(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")))
	a := authenticated(t, c, "u")
	_, err := c.ImportAccess(t.Context(), strings.NewReader(`{"clients":[{"username":"u","roles":[{"rolename":"r"}]}],
		"roles":[{"rolename":"r","acls":[{"acltype":"publishClientSend","topic":"#","allow":true}]}]}`), true)
	must(t, err)
	if !a.Allowed(dynsec.PublishSend, "id", "t") {
		t.Error("the account has the rights of before")
	}
	if !a.Revoked() {
		t.Error("the account is not revoked, though its credentials were replaced")
	}
}

func TestAccountIsRevoked(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")), c.CreateClient(t.Context(), client("v")),
		c.CreateGroup(t.Context(), broker.GroupSpec{GroupName: "g"}))
	u, v, anonymous := authenticated(t, c, "u"), authenticated(t, c, "v"), c.Anonymous()
	command(t, c, `{"command":"setClientId","username":"u","clientid":"id"}`)
	if !u.Revoked() || v.Revoked() || anonymous.Revoked() {
		t.Errorf("u, v, anonymous revoked: %v, %v, %v, want only u", u.Revoked(), v.Revoked(), anonymous.Revoked())
	}
	if authenticated(t, c, "u").Revoked() {
		t.Error("a log-in after the change counts as revoked")
	}
	command(t, c, `{"command":"setAnonymousGroup","groupname":"g"}`)
	if v.Revoked() || !anonymous.Revoked() || c.Anonymous().Revoked() {
		t.Error("want only the earlier anonymous account revoked")
	}
}

func TestReleasedAccountsAreRemoved(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")))
	a, b := authenticated(t, c, "u"), authenticated(t, c, "u")
	a.Release()
	a.Release()
	c.Anonymous().Release()
	if n := len(c.accounts.live); n != 1 {
		t.Errorf("%d usernames are held, want 1: one connection is left", n)
	}
	b.Release()
	if n := len(c.accounts.live); n != 0 {
		t.Errorf("%d usernames are held after the last connection ended", n)
	}
	if _, err := c.Authenticate(t.Context(), login("nobody", "secret")); err == nil || len(c.accounts.live) != 0 {
		t.Errorf("a refused log-in stays: %v", err)
	}
}

func TestAllowedAllocatesNothing(t *testing.T) {
	// Not parallel: it counts allocations.
	c := fresh(t)
	must(t, c.CreateRole(t.Context(), role("r", "a/b", "a/+/c/%u/#")), c.CreateClient(t.Context(), client("u", "r")))
	a := authenticated(t, c, "u")
	if n := testing.AllocsPerRun(100, func() {
		if !a.Allowed(dynsec.PublishSend, "id", "a/b") || !a.Allowed(dynsec.PublishSend, "id", "a/x/c/u/y") {
			t.Error("denied")
		}
	}); n != 0 {
		t.Errorf("a check allocates %v times", n)
	}
}

// TestRightsUnderChange checks rights while they change; it runs under the race detector,
// and every account must end with the last state's rights.
func TestRightsUnderChange(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateRole(t.Context(), role("r")))
	const clients = 8
	for i := range clients {
		must(t, c.CreateClient(t.Context(), client(fmt.Sprint("u", i), "r")))
	}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range 50 {
				a := c.accounts.acquire(fmt.Sprint("u", i))
				a.Allowed(dynsec.PublishSend, "id", "t")
				a.Release()
			}
		})
	}
	for i := range 20 {
		must(t, c.ModifyRole(t.Context(), role("r", fmt.Sprint("t", i))))
	}
	kept := c.accounts.acquire("u0")
	defer kept.Release()
	must(t, c.ModifyRole(t.Context(), role("r", "t")))
	wg.Wait()
	for i := range clients {
		a := c.accounts.acquire(fmt.Sprint("u", i))
		if !a.Allowed(dynsec.PublishSend, "id", "t") {
			t.Errorf("u%d has the rights of an earlier state", i)
		}
		a.Release()
	}
	if !kept.Allowed(dynsec.PublishSend, "id", "t") {
		t.Error("an account held over the last change has the rights of an earlier state")
	}
}

func TestEpochFollowsRights(t *testing.T) {
	t.Parallel()
	c := open(t, filepath.Join(t.TempDir(), "broker.db"))
	ctx := t.Context()
	name := "epoch"
	if err := c.CreateClient(ctx, broker.ClientSpec{Username: name}); err != nil {
		t.Fatal(err)
	}
	a := c.Resume(name)
	defer a.Release()
	before := c.Epoch()
	if a.Allowed(dynsec.PublishSend, "", "t") {
		t.Fatal("a client without roles may publish")
	}
	allow := []broker.DefaultACL{{ACLType: "publishClientSend", Allow: true}}
	if err := c.SetDefaultACLAccess(ctx, allow); err != nil {
		t.Fatal(err)
	}
	if !a.Allowed(dynsec.PublishSend, "", "t") || c.Epoch() == before {
		t.Error("the change is not in force, or not reported")
	}
}
