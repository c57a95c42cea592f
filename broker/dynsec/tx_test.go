package dynsec

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"signalbox/broker"
)

// TestReadersNeedNoLock reads versions while a writer makes new ones from them, some of
// which are dropped, for the race detector to check.
func TestReadersNeedNoLock(t *testing.T) {
	t.Parallel()
	s := fleet(t, 500)
	var readers sync.WaitGroup
	for i := range 50 {
		version := s
		for range 2 {
			readers.Go(func() { readAll(t, version, 500+i) })
		}
		tx := s.Begin()
		tx.Do(DeleteRole("device"), nil)
		tx = s.Begin()
		for _, c := range []Command{
			CreateClient(broker.ClientSpec{Username: fmt.Sprintf("d%06d", i), Roles: []broker.RoleRef{{RoleName: "device"}}, Groups: []broker.GroupRef{{GroupName: "fleet"}}}),
			ModifyRole(broker.RoleSpec{RoleName: "device", TextName: ptr(fmt.Sprint(i))}),
			ModifyGroup(broker.GroupSpec{GroupName: "fleet", TextName: ptr(fmt.Sprint(i))}),
			DisableClient(fmt.Sprintf("c%06d", i)),
		} {
			if err := tx.Do(c, nil).Err(); err != nil {
				t.Error(err)
			}
		}
		s, _, _ = tx.End()
	}
	readers.Wait()
	checkIndexes(t, s)
}

func readAll(t *testing.T, s *State, n int) {
	total := 0
	for c := range part(t, s.ListClients, broker.ListOptions[broker.Client]{Count: -1}).Items {
		if _, ok := s.Rights(c.Username); !ok {
			t.Errorf("no rights for %q", c.Username)
		}
		total += len(c.Roles)
	}
	g, _ := s.Group("fleet")
	if total != n || len(g.Clients) != n {
		t.Errorf("%d clients with the role, %d members; want %d", total, len(g.Clients), n)
	}
}

// TestWritersMayBeginAtTheSameVersion checks that two transactions from one version do
// not affect each other.
func TestWritersMayBeginAtTheSameVersion(t *testing.T) {
	t.Parallel()
	s := fleet(t, 200)
	var wg sync.WaitGroup
	made := make([]*State, 4)
	for i := range made {
		wg.Go(func() {
			tx := s.Begin()
			for j := range 100 {
				tx.Do(CreateClient(broker.ClientSpec{Username: fmt.Sprintf("w%d-%d", i, j), Roles: []broker.RoleRef{{RoleName: "device"}}}), nil)
			}
			made[i], _, _ = tx.End()
		})
	}
	wg.Wait()
	for i, next := range made {
		checkIndexes(t, next)
		_, other := next.Client(fmt.Sprintf("w%d-0", (i+1)%len(made)))
		if n, _, _ := next.Counts(); n != 300 || other {
			t.Errorf("%d clients, another's among them: %t", n, other)
		}
	}
	sameState(t, "the version they began with", fleet(t, 200), s)
}

func TestTxWithoutChangeReturnsTheSame(t *testing.T) {
	t.Parallel()
	s := fleet(t, 10)
	tx := s.Begin()
	tx.Do(GetClient("c000001"), nil)
	tx.Do(DeleteClient("none"), nil)
	tx.Do(EnableClient("c000001"), nil)
	next, changes, disconnects := tx.End()
	if len(changes)+len(disconnects) != 0 {
		t.Errorf("changes %v, disconnects %v", changes, disconnects)
	}
	sameState(t, "nothing done", s, next)
}

func TestTxCutsOnce(t *testing.T) {
	t.Parallel()
	tx := fleet(t, 3).Begin()
	tx.Do(DisableClient("c000001"), nil)
	tx.Do(DeleteRole("device"), nil)
	tx.Do(DeleteClient("c000002"), nil)
	_, _, disconnects := tx.End()
	want := []Disconnect{{Username: "c000001"}, {Username: "c000000"}, {Username: "c000002"}}
	if !slices.Equal(disconnects, want) {
		t.Errorf("disconnects %v, want %v", disconnects, want)
	}
}

// TestChangesDoNotGrowWithTheState checks that one command makes one change, however
// many clients there are.
func TestChangesDoNotGrowWithTheState(t *testing.T) {
	t.Parallel()
	s := fleet(t, 2000)
	for _, tc := range []struct {
		command Command
		want    int
	}{
		{CreateClient(broker.ClientSpec{Username: "new", Roles: []broker.RoleRef{{RoleName: "device"}}}), 1},
		{ModifyRole(broker.RoleSpec{RoleName: "device", ACLs: []broker.ACL{}}), 1},
		{ModifyGroup(broker.GroupSpec{GroupName: "fleet", Roles: []broker.RoleRef{{RoleName: "device"}}}), 1},
		{DeleteRole("device"), 1},
		{DeleteGroup("fleet"), 1},
		{DeleteClient("c000007"), 1},
	} {
		tx := s.Begin()
		if err := tx.Do(tc.command, nil).Err(); err != nil {
			t.Error(err)
		}
		if _, changes, _ := tx.End(); len(changes) != tc.want+1 {
			t.Errorf("%s: %d changes, want %d and the index", tc.command, len(changes), tc.want)
		}
	}
}

func TestRightsComeFromTheState(t *testing.T) {
	t.Parallel()
	s := freshBroker(t)
	_, s, _, _ = run(s, []byte(`{"commands":[
		{"command":"createRole","rolename":"yes","acls":[{"acltype":"publishClientSend","topic":"t","allow":true}]},
		{"command":"createRole","rolename":"no","acls":[{"acltype":"publishClientSend","topic":"t","allow":false}]},
		{"command":"createGroup","groupname":"g","roles":[{"rolename":"no","priority":99}]},
		{"command":"createGroup","groupname":"anon","roles":[{"rolename":"yes"}]},
		{"command":"setAnonymousGroup","groupname":"anon"},
		{"command":"createClient","username":"own","roles":[{"rolename":"yes"}],"groups":[{"groupname":"g"}]},
		{"command":"createClient","username":"order","roles":[{"rolename":"yes","priority":1},{"rolename":"no","priority":2}]},
		{"command":"createClient","username":"member","groups":[{"groupname":"g","priority":1},{"groupname":"anon","priority":2}]}]}`), nil)
	for username, want := range map[string]bool{"own": true, "order": false, "member": true, "admin": false} {
		r, ok := s.Rights(username)
		if !ok || r.Allowed(PublishSend, "id", "t") != want {
			t.Errorf("%s may publish: %t (there: %t), want %t", username, !want, ok, want)
		}
	}
	if !s.AnonymousRights().Allowed(PublishSend, "id", "t") {
		t.Error("anonymous clients lack the rights of their group")
	}
	if _, ok := s.Rights("nobody"); ok {
		t.Error("an unknown client has rights")
	}
	if NewState().AnonymousRights().Allowed(PublishSend, "id", "t") {
		t.Error("anonymous clients have rights without a group")
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	_, s, _, _ := run(NewState(), []byte(`{"commands":[
		{"command":"createClient","username":"u","password":"p","clientid":"id"},
		{"command":"disableClient","username":"u"},
		{"command":"createClient","username":"v"},
		{"command":"createClient","username":"w"},
		{"command":"setClientPassword","username":"w","password":"p"},
		{"command":"modifyClient","username":"w","password":""}]}`), nil)
	type login struct {
		clientID                  string
		disabled, hasPassword, ok bool
	}
	for username, want := range map[string]login{
		"u": {"id", true, true, true}, "v": {"", false, false, true}, "w": {"", false, true, true}, "x": {},
	} {
		var got login
		got.clientID, got.disabled, got.hasPassword, got.ok = s.Login(username)
		if got != want {
			t.Errorf("%s: %+v, want %+v", username, got, want)
		}
	}
}
