package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/dynsec"
)

// changeLog is a log in memory, whose entries its nodes apply in order.
type changeLog struct {
	leads
	mu          sync.Mutex // guards what follows
	entries     [][]byte
	nodes       []*Control
	disconnects map[*Control][]dynsec.Disconnect // that ApplyChange returned to its caller
}

// sharedNodes returns nodes that share one log, through which the first one makes changes.
func sharedNodes(t testing.TB, nodes int) (*changeLog, []*Control) {
	t.Helper()
	l := logOf()
	for range nodes {
		l.nodes = append(l.nodes, fresh(t))
	}
	l.nodes[0].SetReplicator(l)
	return l, l.nodes
}

func logOf(nodes ...*Control) *changeLog {
	return &changeLog{nodes: nodes, disconnects: map[*Control][]dynsec.Disconnect{}}
}

// Replicate appends an entry and applies it on all nodes.
func (l *changeLog) Replicate(_ context.Context, change []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, change)
	for _, n := range l.nodes {
		disconnects, err := n.ApplyChange(uint64(len(l.entries)), change)
		if err != nil {
			return err
		}
		l.disconnects[n] = append(l.disconnects[n], disconnects...)
	}
	return nil
}

// catchUp applies the entries that a node lacks, and the earlier ones once more.
func (l *changeLog) catchUp(t testing.TB, n *Control) {
	t.Helper()
	for i, change := range l.entries {
		_, err := n.ApplyChange(uint64(i+1), change)
		must(t, err)
	}
}

// leads is embedded by a Replicator of a broker that decides itself.
type leads struct{}

func (leads) Leads() bool { return true }

func (leads) Forward(context.Context, []byte) ([]byte, error) {
	return nil, errors.New("forwarded by the broker that decides")
}

// replicator returns a Replicator that calls a function.
func replicator(f func(ctx context.Context, change []byte) error) Replicator {
	return replicateFunc{replicate: f}
}

type replicateFunc struct {
	leads
	replicate func(ctx context.Context, change []byte) error
}

func (r replicateFunc) Replicate(ctx context.Context, change []byte) error {
	return r.replicate(ctx, change)
}

// bytesOf returns a snapshot.
func bytesOf(t testing.TB, c *Control) []byte {
	t.Helper()
	s, err := c.Snapshot(t.Context())
	must(t, err)
	defer s.Release()
	if s.Index() != c.AppliedIndex() {
		t.Fatalf("a snapshot of index %d at index %d", s.Index(), c.AppliedIndex())
	}
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	must(t, err)
	if n != int64(b.Len()) {
		t.Fatalf("wrote %d bytes and reports %d", b.Len(), n)
	}
	return b.Bytes()
}

// wantSame expects two nodes to have the same state, in file and memory.
func wantSame(t testing.TB, what string, a, b *Control) {
	t.Helper()
	if bytes.Equal(bytesOf(t, a), bytesOf(t, b)) && inMemory(t, a) == inMemory(t, b) {
		return
	}
	t.Fatalf("%s: in the files:\n%s\nin memory:\n%s", what,
		cmp.Diff(export(t, a), export(t, b)), cmp.Diff(inMemory(t, a), inMemory(t, b)))
}

func TestFollowersAreDisconnected(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 2)
	leader, follower := nodes[0], nodes[1]
	leader.OnDisconnect(func(disconnects []dynsec.Disconnect) {
		t.Errorf("the leader got %v in addition to its caller", disconnects)
	})
	must(t, leader.CreateRole(t.Context(), role("r", "a")), leader.CreateClient(t.Context(), client("u", "r")))
	a := authenticated(t, follower, "u")
	epoch := follower.Epoch()
	_, disconnects := leader.Handle(t.Context(), []byte(`{"commands":[{"command":"deleteRole","rolename":"r"}]}`))
	want := []dynsec.Disconnect{{Username: "u"}}
	if !slices.Equal(disconnects, want) || !slices.Equal(l.disconnects[follower], want) || len(l.disconnects[leader]) > 0 {
		t.Errorf("disconnects %v at the caller, %v at the follower, %v at the leader; want %v at the first two",
			disconnects, l.disconnects[follower], l.disconnects[leader], want)
	}
	if a.Allowed(dynsec.PublishSend, "id", "a") || !a.Revoked() || follower.Epoch() == epoch {
		t.Error("a live connection of the follower has the rights from before")
	}
}

// TestReplicateFails expects no effect, and the kind of error to show whether the change
// may still happen.
func TestReplicateFails(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 1)
	c := nodes[0]
	must(t, c.CreateClient(t.Context(), client("u")))
	before := bytesOf(t, c)
	lost := errors.New("lost")
	var late []byte
	for _, tc := range []struct {
		err  error
		want broker.Kind
	}{
		{&broker.Error{Kind: broker.Unavailable, Msg: "no leader"}, broker.Unavailable},
		{lost, broker.Unconfirmed}, {nil, broker.Unconfirmed}, // it claims success and applied nothing
	} {
		c.SetReplicator(replicator(func(_ context.Context, change []byte) error { late = change; return tc.err }))
		wantKind(t, c.DisableClient(t.Context(), "u"), tc.want)
		if !bytes.Equal(before, bytesOf(t, c)) || c.AppliedIndex() != 1 {
			t.Fatal("something is in force")
		}
	}
	must(t, l.Replicate(t.Context(), late))
	if want := []dynsec.Disconnect{{Username: "u"}}; !slices.Equal(l.disconnects[c], want) {
		t.Errorf("a change that no caller waits for returns disconnects %v, want %v", l.disconnects[c], want)
	}
	if u, err := c.GetClient(t.Context(), "u"); err != nil || !u.Disabled {
		t.Errorf("it is not in force after all: %+v, %v", u, err)
	}
}

// TestEarlierAttempt applies an attempt that was abandoned while the same change is tried
// again. It must not be taken for the new one.
func TestEarlierAttempt(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 1)
	c := nodes[0]
	var early []byte
	c.SetReplicator(replicator(func(_ context.Context, change []byte) error { early = change; return errors.New("lost") }))
	wantKind(t, c.CreateRole(t.Context(), role("r")), broker.Unconfirmed)
	c.SetReplicator(replicator(func(ctx context.Context, _ []byte) error {
		must(t, l.Replicate(ctx, early))
		return &broker.Error{Kind: broker.Unavailable, Msg: "no leader"}
	}))
	wantKind(t, c.CreateRole(t.Context(), role("r")), broker.Unavailable)
	if _, ok := c.state.Load().Role("r"); !ok {
		t.Error("the earlier attempt is not in force")
	}
}

// TestStaleDecisions applies another broker's change before one that was decided without
// knowing it. The second one must not undo the first.
func TestStaleDecisions(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 3)
	a, b, text := nodes[0], nodes[1], "text"
	must(t, a.CreateClient(t.Context(), client("u")), a.CreateClient(t.Context(), client("v")))
	b.SetReplicator(l)
	before := sync.OnceFunc(func() {
		must(t, b.DisableClient(t.Context(), "u"), b.DeleteClient(t.Context(), "v"))
	})
	a.SetReplicator(replicator(func(ctx context.Context, change []byte) error {
		before()
		return l.Replicate(ctx, change)
	}))
	got := command(t, a, `{"command":"modifyClient","username":"u","textname":"text"},{"command":"createClient","username":"v"},{"command":"deleteClient","username":"w"}`)
	if want := `{"responses":[{"command":"modifyClient"},{"command":"createClient"},{"command":"deleteClient","error":"Client not found"}]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, n := range nodes {
		u, err := n.GetClient(t.Context(), "u")
		if err != nil || !u.Disabled || u.TextName == nil || *u.TextName != text {
			t.Errorf("got %+v, %v: one change undid the other", u, err)
		}
		wantSame(t, "after all", a, n)
	}
}

// TestRefusalsAreOfTheLastState applies a change before one that was refused; it is then no
// longer refused.
func TestRefusalsAreOfTheLastState(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 2)
	a, b := nodes[0], nodes[1]
	must(t, a.CreateRole(t.Context(), role("r")))
	b.SetReplicator(l)
	before := sync.OnceFunc(func() { must(t, b.CreateClient(t.Context(), client("u"))) })
	a.SetReplicator(replicator(func(ctx context.Context, change []byte) error {
		before()
		return l.Replicate(ctx, change)
	}))
	must(t, a.DisableClient(t.Context(), "u"))
	wantSame(t, "both", a, b)
}

func TestEndlessContention(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 2)
	a, b, n := nodes[0], nodes[1], 0
	b.SetReplicator(l)
	a.SetReplicator(replicator(func(ctx context.Context, change []byte) error {
		n++
		must(t, b.CreateRole(ctx, role(fmt.Sprint("r", n))))
		return l.Replicate(ctx, change)
	}))
	wantKind(t, a.CreateClient(t.Context(), client("u")), broker.Unavailable)
	if _, err := b.GetClient(t.Context(), "u"); err == nil {
		t.Error("it happened although it was refused")
	}
	wantSame(t, "both", a, b)
}

// TestUnknownFormat applies a change of a newer release, which stops the broker until it
// receives one that it supports.
func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 1)
	must(t, nodes[0].CreateClient(t.Context(), client("u")), nodes[0].DisableClient(t.Context(), "u"))
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	_, err := c.ApplyChange(1, l.entries[0])
	must(t, err)
	before := bytesOf(t, c)
	newer := slices.Clone(l.entries[1])
	newer[0] = format + 1
	for i, want := range []error{errFormat, errFormat, errDamaged} {
		change := [][]byte{newer, newer, l.entries[1][:3]}[i]
		if _, err := c.ApplyChange(2, change); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if _, err := c.ApplyChange(3, l.entries[1]); !errors.Is(err, errGap) {
		t.Errorf("got %v for what comes after, want %v", err, errGap)
	}
	if !bytes.Equal(before, bytesOf(t, c)) || c.AppliedIndex() != 1 {
		t.Error("something was changed")
	}
	shut(t, c)
	c = open(t, path)
	if c.AppliedIndex() != 1 {
		t.Errorf("index %d after a restart, want 1", c.AppliedIndex())
	}
	l.catchUp(t, c)
	wantSame(t, "after all", nodes[0], c)
}

// TestMissingChange omits a change.
func TestMissingChange(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 1)
	must(t, nodes[0].CreateClient(t.Context(), client("u")), nodes[0].DisableClient(t.Context(), "u"))
	c := fresh(t)
	if _, err := c.ApplyChange(2, l.entries[1]); !errors.Is(err, errGap) || c.AppliedIndex() != 0 {
		t.Errorf("got %v at %d, want %v", err, c.AppliedIndex(), errGap)
	}
	l.catchUp(t, c)
	wantSame(t, "with it", nodes[0], c)
}

// TestFullDiskOfANode cannot store what was decided, until there is space again.
func TestFullDiskOfANode(t *testing.T) {
	t.Parallel()
	l, nodes := sharedNodes(t, 1)
	c := nodes[0]
	must(t, c.CreateRole(t.Context(), role("before")))
	_, err := c.store.w.ExecContext(t.Context(), `PRAGMA max_page_count = 1`)
	must(t, err)
	wantKind(t, c.CreateRole(t.Context(), role("big", strings.Repeat("x", 60_000))), broker.Unconfirmed)
	if _, ok := c.state.Load().Role("big"); ok || c.AppliedIndex() != 1 {
		t.Error("what could not be stored is in force")
	}
	if _, err := c.ApplyChange(3, l.entries[0]); !errors.Is(err, errGap) {
		t.Errorf("got %v for what comes after, want %v", err, errGap)
	}
	_, err = c.store.w.ExecContext(t.Context(), `PRAGMA max_page_count = 100000`)
	must(t, err)
	l.catchUp(t, c)
	if _, ok := c.state.Load().Role("big"); !ok || c.AppliedIndex() != 2 {
		t.Error("it is not in force after the cause was fixed")
	}
}

// TestDetach expects a broker that shares its access control to make no change by itself,
// also after a restart, until Detach.
func TestDetach(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "broker.db")
	c := open(t, path)
	must(t, c.CreateRole(t.Context(), role("alone")))
	c.SetReplicator(logOf(c))
	must(t, c.CreateRole(t.Context(), role("shared")))
	c.SetReplicator(nil)
	wantKind(t, c.CreateRole(t.Context(), role("r")), broker.Unavailable)
	shut(t, c)
	c = open(t, path)
	wantKind(t, c.CreateRole(t.Context(), role("r")), broker.Unavailable)
	must(t, c.Detach(t.Context()), c.CreateRole(t.Context(), role("r")))
	shut(t, c)
	c = open(t, path)
	must(t, c.CreateRole(t.Context(), role("s")))
	if _, _, roles := c.state.Load().Counts(); roles != 4 || c.AppliedIndex() != 0 {
		t.Errorf("%d roles at index %d, want 4 at 0", roles, c.AppliedIndex())
	}
}

// TestReplicatorInBetween sets a replicator while a change is being decided.
func TestReplicatorInBetween(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fresh(t)
		l := logOf(c)
		release := blockWriter(t, c)
		var wg sync.WaitGroup
		wg.Go(func() { must(t, c.CreateRole(t.Context(), role("r"))) })
		synctest.Wait()
		c.SetReplicator(l)
		release()
		wg.Wait()
		if len(l.entries) == 0 || c.AppliedIndex() != uint64(len(l.entries)) {
			t.Errorf("%d entries at index %d", len(l.entries), c.AppliedIndex())
		}
	})
}

// TestManyCallersShareEntries makes concurrent changes through a log.
func TestManyCallersShareEntries(t *testing.T) {
	t.Parallel()
	const callers, each = 16, 15
	l, nodes := sharedNodes(t, 3)
	must(t, nodes[0].CreateRole(t.Context(), role("r")))
	release := blockWriter(t, nodes[0])
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprintf("u%d-%d", caller, i)
				if err := nodes[0].CreateClient(t.Context(), broker.ClientSpec{Username: name, Roles: roleRefs([]string{"r"})}); err != nil {
					t.Errorf("create %s: %v", name, err)
				}
				for _, n := range nodes {
					if _, err := n.GetClient(t.Context(), name); err != nil {
						t.Errorf("%s was acknowledged and is not everywhere: %v", name, err)
					}
				}
			}
		})
	}
	brokertest.WaitFor(t, "the first changes of all wait", func() bool { return len(nodes[0].writer.queue) == callers })
	release()
	wg.Wait()
	for _, n := range nodes {
		wantSame(t, "after all", nodes[0], n)
	}
	if len(l.entries) >= callers*each {
		t.Errorf("%d entries for %d changes: none was shared", len(l.entries), callers*each)
	}
}

// TestCloseStopsWaitingForOthers closes while the replicator blocks forever.
func TestCloseStopsWaitingForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := fresh(t)
		c.SetReplicator(replicator(func(ctx context.Context, _ []byte) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		var wg sync.WaitGroup
		wg.Go(func() { wantKind(t, c.CreateRole(t.Context(), role("r")), broker.Unconfirmed) })
		synctest.Wait()
		bounded, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Close(bounded); err == nil {
			t.Error("close does not honour its context")
		}
		wg.Wait()
		shut(t, c)
	})
}
