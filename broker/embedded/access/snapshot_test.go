package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// restore imports a snapshot and returns the disconnects.
func restore(t testing.TB, c *Control, index uint64, snapshot []byte) []dynsec.Disconnect {
	t.Helper()
	disconnects, err := c.ImportState(t.Context(), index, bytes.NewReader(snapshot))
	must(t, err)
	return disconnects
}

// TestSnapshotOfHistories imports the result of random histories over another state, and
// continues from there.
func TestSnapshotOfHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		d := generator{rand.New(rand.NewPCG(seed, 6))}
		path := filepath.Join(t.TempDir(), "broker.db")
		from, to := fresh(t), open(t, path)
		for range 80 {
			from.Handle(t.Context(), d.request(t))
			to.Handle(t.Context(), d.request(t))
		}
		snapshot := bytesOf(t, from)
		restore(t, to, 7, snapshot)
		wantSame(t, "imported", from, to)
		wantSameRights(t, from, to)
		shut(t, to)
		to = open(t, path)
		if to.AppliedIndex() != 7 {
			t.Errorf("index %d after a restart, want 7", to.AppliedIndex())
		}
		wantSame(t, "imported, after a restart", from, to)
		if disconnects := restore(t, to, 8, snapshot); len(disconnects) > 0 {
			t.Errorf("a snapshot of the same throws %v out", disconnects)
		}
		changeTogether(t, d, from, to)
	}
}

// changeTogether makes changes on both nodes after one imported the other's state.
func changeTogether(t *testing.T, d generator, leader, follower *Control) {
	t.Helper()
	index := follower.AppliedIndex()
	leader.SetReplicator(replicator(func(_ context.Context, change []byte) error {
		index++
		_, errLeader := leader.ApplyChange(index, change)
		_, errFollower := follower.ApplyChange(index, change)
		return errors.Join(errLeader, errFollower)
	}))
	for range 30 {
		leader.Handle(t.Context(), d.request(t))
	}
	wantSame(t, "after going on", leader, follower)
}

// TestSnapshotIsOneMoment writes a snapshot after the state has changed.
func TestSnapshotIsOneMoment(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	must(t, c.CreateClient(t.Context(), client("u")))
	want := bytesOf(t, c)
	s, err := c.Snapshot(t.Context())
	must(t, err)
	defer s.Release()
	must(t, c.DeleteClient(t.Context(), "u"), c.CreateRole(t.Context(), role("r")))
	var got bytes.Buffer
	must(t, second(s.WriteTo(&got)))
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("a snapshot contains a later change")
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	t.Parallel()
	to := fresh(t)
	must(t, to.Bootstrap(t.Context(), "boss", "secret"))
	restore(t, to, 1, bytesOf(t, fresh(t)))
	if to.Initialised() {
		t.Error("the broker counts as set up")
	}
	if clients, groups, roles := to.state.Load().Counts(); clients+groups+roles > 0 {
		t.Error("something is left")
	}
}

// TestImportStateDisconnects expects disconnects of the clients whose rights or credentials differ, and
// of no others.
func TestImportStateDisconnects(t *testing.T) {
	t.Parallel()
	from, to := fresh(t), fresh(t)
	names := []string{"same", "role", "password", "disabled", "gone", "text"}
	must(t, from.CreateRole(t.Context(), role("r", "a")), from.CreateRole(t.Context(), role("s", "b")))
	for _, name := range names {
		roles := []string{"s"}
		if name == "role" {
			roles = []string{"r"}
		}
		must(t, from.CreateClient(t.Context(), client(name, roles...)))
	}
	restore(t, to, 1, bytesOf(t, from))
	live := map[string]*Account{}
	for _, name := range names {
		live[name] = authenticated(t, to, name)
	}
	must(t, from.SetDefaultACLAccess(t.Context(), []broker.DefaultACL{{ACLType: "publishClientSend", Allow: true}}))
	text, other := "text", broker.Secret("other")
	must(t, from.ModifyRole(t.Context(), role("r", "c")), from.DisableClient(t.Context(), "disabled"), from.DeleteClient(t.Context(), "gone"),
		from.ModifyClient(t.Context(), broker.ClientSpec{Username: "password", Password: &other}),
		from.ModifyClient(t.Context(), broker.ClientSpec{Username: "text", TextName: &text}))
	got := restore(t, to, 2, bytesOf(t, from))
	want := []dynsec.Disconnect{{Username: "disabled"}, {Username: "gone"}, {Username: "password"}, {Username: "role"}}
	if !slices.Equal(got, want) {
		t.Errorf("disconnects %v, want %v", got, want)
	}
	for name, a := range live {
		if a.Revoked() != slices.Contains(want, dynsec.Disconnect{Username: name}) {
			t.Errorf("account of %s: revoked is %t", name, a.Revoked())
		}
	}
	if !live["same"].Allowed(dynsec.PublishSend, "id", "by default") || !to.Anonymous().Allowed(dynsec.PublishSend, "id", "by default") {
		t.Error("live connections go by the default access from before")
	}
}

// TestDamagedSnapshots expects anything incomplete to change nothing.
func TestDamagedSnapshots(t *testing.T) {
	t.Parallel()
	from, to := fresh(t), fresh(t)
	must(t, from.Bootstrap(t.Context(), "boss", "secret"), to.CreateClient(t.Context(), client("u")))
	snapshot, before := bytesOf(t, from), bytesOf(t, to)
	refuse := func(what string, b []byte, want error) {
		if _, err := to.ImportState(t.Context(), 1, bytes.NewReader(b)); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	for i := range snapshot {
		refuse(fmt.Sprintf("only %d bytes", i), snapshot[:i], errDamaged)
	}
	for i := 1; i < len(snapshot); i += 7 {
		b := slices.Clone(snapshot)
		b[i] ^= 1
		refuse(fmt.Sprintf("byte %d", i), b, errDamaged)
	}
	refuse("something behind it", append(slices.Clone(snapshot), 0), errDamaged)
	refuse("a newer format", append([]byte{format + 1}, snapshot[1:]...), errFormat)
	if !bytes.Equal(before, bytesOf(t, to)) || to.AppliedIndex() != 0 {
		t.Error("something was changed")
	}
}

// TestImportStateUnderChecks repeatedly replaces two states by each other. What both of
// them deny must be denied at every moment, and so must a log-in with the password of the
// one and the record of the other.
func TestImportStateUnderChecks(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	first, second := twoStates(t)
	restore(t, c, 1, first)
	a := authenticated(t, c, "watched")
	var done atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !done.Load() {
			if a.Allowed(dynsec.PublishSend, "id", "secret") {
				t.Error("allowed what neither state allows")
			}
		}
	})
	wg.Go(func() {
		for !done.Load() {
			if l, err := c.Authenticate(t.Context(), login("u", "second")); err == nil {
				t.Error("admitted by the record of one state and the password of the other")
				l.Release()
			}
		}
	})
	for i := range uint64(60) {
		restore(t, c, i+2, [][]byte{second, first}[i%2])
	}
	done.Store(true)
	wg.Wait()
}

// twoStates returns snapshots of a state in which "watched" is in a group without rights
// and u has the password "first", and of one where the group has all rights but "watched"
// is not a member, and u has the password "second" and is disabled.
func twoStates(t *testing.T) (first, second []byte) {
	t.Helper()
	c := fresh(t)
	must(t, c.CreateRole(t.Context(), role("all", "#")), c.CreateGroup(t.Context(), broker.GroupSpec{GroupName: "g"}),
		c.CreateClient(t.Context(), client("watched")), c.CreateClient(t.Context(), client("u")))
	do := func(commands string) {
		must(t, c.SetDefaultACLAccess(t.Context(), []broker.DefaultACL{{ACLType: "publishClientSend", Allow: false}}))
		if got := command(t, c, commands); bytes.Contains([]byte(got), []byte("error")) {
			t.Fatal(got)
		}
	}
	do(`{"command":"addGroupClient","groupname":"g","username":"watched"},{"command":"setClientPassword","username":"u","password":"first"}`)
	first = bytesOf(t, c)
	do(`{"command":"removeGroupClient","groupname":"g","username":"watched"},{"command":"addGroupRole","groupname":"g","rolename":"all"},
		{"command":"setClientPassword","username":"u","password":"second"},{"command":"disableClient","username":"u"}`)
	return first, bytesOf(t, c)
}
