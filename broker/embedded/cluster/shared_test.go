package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// newSharing returns a fleet whose clusters have a Shared.
func newSharing(t testing.TB) *fleet {
	f := newFleet(t)
	f.shares = true
	return f
}

// share has an entry applied through a node, which has applied it when share returns. An entry of
// unknown outcome is not repeated.
func (s *station) share(t testing.TB, entry string) (position string) {
	t.Helper()
	result, err := s.node.Forward(within(t, suite.HangLimit), []byte("share "+entry))
	if err != nil {
		t.Fatalf("share %s at node %d: %v", entry, s.id, err)
	}
	if !slices.Contains(s.list.all(), entry) {
		t.Fatalf("node %d has not applied %s, which was acknowledged there", s.id, entry)
	}
	return string(result)
}

// lists waits until all running nodes have applied the same entries, at least those that are wanted
// and each once, and returns them.
func (f *fleet) lists(want ...string) (all []string) {
	f.t.Helper()
	eventually(f.t, func() error {
		all = nil
		for id, s := range f.nodes {
			if s.node == nil {
				continue
			}
			got := s.list.all()
			if all == nil {
				all = got
			}
			if !slices.Equal(got, all) {
				return fmt.Errorf("node %d has %d entries unlike another one with %d", id, len(got), len(all))
			}
		}
		has := map[string]bool{}
		for _, e := range all {
			if has[e] {
				f.t.Fatalf("%s was applied twice", e)
			}
			has[e] = true
		}
		for _, w := range want {
			if !has[w] {
				return fmt.Errorf("%s is missing", w)
			}
		}
		return nil
	})
	return all
}

// TestShared applies entries for both machines, proposed at all nodes, in one order, and restarts
// the nodes.
func TestShared(t *testing.T) {
	t.Parallel()
	f := newSharing(t).form(1, 2, 3)
	var want []string
	for i := range 12 {
		s := f.nodes[NodeID(1+i%3)]
		entry := fmt.Sprint("e", i)
		if got := s.share(t, entry); got != fmt.Sprint(i+1) {
			t.Fatalf("%s has position %s, want %d", entry, got, i+1)
		}
		s.put(t, entry, "v")
		want = append(want, entry)
	}
	if got := f.lists(want...); !slices.Equal(got, want) {
		t.Errorf("the entries are %v", got)
	}
	for _, s := range f.nodes {
		if info, err := s.node.Info(); err != nil || !info.Shared || info.Format != sharedFormat {
			t.Errorf("node %d says %+v, %v", s.id, info, err)
		}
		s.kill()
	}
	for id := range f.nodes {
		f.start(id)
	}
	f.settled(3)
	f.nodes[2].share(t, "later")
	f.lists(append(want, "later")...)
	f.agree(map[string]string{"e11": "v"})
	for id, s := range f.nodes {
		if s.list.restored()+s.register.restored() > 0 {
			t.Errorf("node %d restored what it had", id)
		}
	}
}

// TestSharedJoin has nodes join that have content of their own.
func TestSharedJoin(t *testing.T) {
	t.Parallel()
	f := newSharing(t)
	a, b := f.start(1), f.start(2)
	for i := range 5 { // indices that the cluster will not have for a while
		for _, s := range []*station{a, b} {
			_, err := s.list.Apply(t.Context(), uint64(100+i), fmt.Appendf(nil, "own %d of %d", i, s.id))
			must(t, err)
		}
	}
	created := spec(1, 1, 2)
	created.Shared = true
	invitations, err := a.node.Create(within(t, suite.HangLimit), created)
	must(t, err, b.node.Join(within(t, suite.HangLimit), spec(2, 1, 2), invitations[0]))
	f.settled(2)
	b.share(t, "new")
	if got, want := f.lists(), []string{"own 0 of 1", "own 1 of 1", "own 2 of 1", "own 3 of 1", "own 4 of 1", "new"}; !slices.Equal(got, want) {
		t.Errorf("the entries are %v", got)
	}
}

// TestSharedJoinAgain has a node join again that lost its directory.
func TestSharedJoinAgain(t *testing.T) {
	t.Parallel()
	f := newSharing(t).form(1, 2, 3)
	f.nodes[2].share(t, "before")
	lost := f.follower()
	lost.kill()
	lost.lose()
	f.leader().share(t, "while it is away")
	lost = f.start(lost.id)
	invitation, err := f.leader().node.AddNode(within(t, suite.HangLimit), member(lost.id))
	must(t, err, lost.node.Join(within(t, suite.HangLimit), spec(lost.id, 1, 2, 3), invitation))
	f.settled(3)
	lost.share(t, "after")
	f.lists("before", "while it is away", "after")
}

// TestSharedSchema changes the schema of the content: each node takes a snapshot, which a node is sent that joins then.
func TestSharedSchema(t *testing.T) {
	t.Parallel()
	f := newSharing(t)
	schema := func(version int64) func(*Options) {
		return func(o *Options) { o.Shared.(*list).schema.Store(version) }
	}
	f.formWith(func(o *Options) { schema(1)(o); o.Timing.SnapshotEvery = 20 * time.Millisecond }, 1, 2)
	f.nodes[1].share(t, "before")
	latest := func(s *station) (schema int64) {
		all, err := s.node.store.List()
		must(t, err)
		_, r, err := s.node.store.Open(all[0].ID)
		must(t, err)
		defer r.Close()
		h, err := readHeader(r)
		must(t, err)
		return h.Schema
	}
	for id, s := range f.nodes {
		if got := latest(s); got != 1 {
			t.Errorf("node %d: the snapshot has schema %d", id, got)
		}
	}
	f.nodes[2].share(t, "the change")
	f.lists("before", "the change")
	for _, s := range f.nodes {
		s.list.schema.Store(2)
	}
	eventually(t, func() error {
		for id, s := range f.nodes {
			if got := latest(s); got != 2 {
				return fmt.Errorf("node %d: the latest snapshot has schema %d", id, got)
			}
		}
		return nil
	})
}

// TestSharedLeave has a node leave, and then the cluster dissolved: all keep their content.
func TestSharedLeave(t *testing.T) {
	t.Parallel()
	f := newSharing(t).formWith(calm, 1, 2, 3)
	f.nodes[1].share(t, "before")
	f.lists("before")
	gone := f.follower()
	must(t, gone.node.Leave(within(t, suite.HangLimit)))
	f.atRest(gone)
	f.settled(2)
	f.leader().share(t, "without it")
	must(t, f.leader().node.Delete(within(t, suite.HangLimit)))
	for id, s := range f.nodes {
		f.atRest(s)
		if got := s.list.all(); !slices.Contains(got, "before") || slices.Contains(got, "without it") == (s == gone) {
			t.Errorf("node %d keeps %v", id, got)
		}
		if !s.list.isFlushed() {
			t.Errorf("node %d has deleted its log before the content was on the disk", id)
		}
		if _, err := s.node.ProposeShared(t.Context(), []byte("at rest")); !errors.Is(err, ErrNotClustered) {
			t.Errorf("node %d at rest: %v", id, err)
		}
	}
}

// TestSharedLeaveUnflushed has a node leave that cannot bring the content to its disk: it keeps its log, and leaves
// when it can.
func TestSharedLeaveUnflushed(t *testing.T) {
	t.Parallel()
	f := newSharing(t).formWith(calm, 1, 2, 3)
	f.nodes[1].share(t, "before")
	f.lists("before")
	gone := f.follower()
	full := errors.New("the disk is full")
	gone.list.failFlush(full)
	go gone.node.Leave(within(t, suite.HangLimit)) //nolint:errcheck // it waits until the node is at rest
	eventually(t, func() error {
		if text := gone.node.Status().ErrMsg; !strings.Contains(text, full.Error()) {
			return fmt.Errorf("the node's trouble is %q", text)
		}
		return nil
	})
	if id, err := gone.node.loadIdentity(); err != nil || id == nil {
		t.Errorf("the node has deleted its log: %v", err)
	}
	gone.list.failFlush(nil)
	f.atRest(gone)
	if !gone.list.isFlushed() {
		t.Error("the node has deleted its log before the content was on the disk")
	}
}

// often makes snapshots and compacts the log often.
func often(o *Options) {
	o.Timing.SnapshotEvery, o.Timing.SnapshotAfter, o.Timing.Trailing = 20*time.Millisecond, 20, 5
}

// TestSharedSnapshot has a node come back that needs a snapshot.
func TestSharedSnapshot(t *testing.T) {
	t.Parallel()
	f := newSharing(t).formWith(often, 1, 2, 3)
	f.nodes[1].share(t, "first")
	f.lists("first")
	away := f.follower()
	away.kill()
	last := f.leader().node.membership.Load().raft.LastIndex()
	var want []string
	for i := 0; ; i++ {
		s := f.leader()
		entry := fmt.Sprint("e", i)
		s.share(t, entry)
		s.put(t, entry, "v")
		want = append(want, entry)
		first, err := s.node.store.FirstIndex()
		must(t, err)
		if first > last+1 {
			break
		}
	}
	back := f.start(away.id, often)
	f.settled(3)
	f.lists(want...)
	f.agree(map[string]string{want[0]: "v"})
	if back.list.restored() == 0 || back.register.restored() == 0 {
		t.Errorf("the node that was away restored %d and %d snapshots", back.list.restored(), back.register.restored())
	}
}

// copyFile copies a file of a node that is stopped.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err, os.WriteFile(to, text, 0o600))
}

// TestSharedStoredApart loses the last changes of one of a node's two databases, as a process or a
// machine that ends between two commits may: it applies what that one lacks, and nothing to the other
// one, whose Apply panics otherwise. With a snapshot in between, only that one is restored.
func TestSharedStoredApart(t *testing.T) {
	t.Parallel()
	for _, behind := range []string{"list.db", "register.db"} {
		for _, compacted := range []bool{false, true} {
			t.Run(fmt.Sprint(behind, " compacted ", compacted), func(t *testing.T) {
				t.Parallel()
				f := newSharing(t)
				tune := func(o *Options) {
					if compacted {
						often(o)
					}
				}
				f.formWith(tune, 1, 2, 3)
				f.nodes[1].share(t, "first")
				f.nodes[1].put(t, "first", "v")
				f.lists("first")
				f.agree(map[string]string{"first": "v"})
				n := f.follower()
				n.close()
				path := filepath.Join(f.dir, fmt.Sprint("node", n.id), behind)
				older := filepath.Join(t.TempDir(), "older")
				copyFile(t, path, older)
				n = f.start(n.id, tune)
				f.settled(3)
				var want []string
				values := map[string]string{}
				for i := range 40 {
					entry := fmt.Sprint("e", i)
					n.share(t, entry)
					n.put(t, entry, "v")
					want = append(want, entry)
					values[entry] = "v"
				}
				if compacted {
					eventually(t, func() error {
						if first, err := n.node.store.FirstIndex(); err != nil || first < 40 {
							return fmt.Errorf("the log begins with entry %d, %v", first, err)
						}
						return nil
					})
				}
				n.close()
				copyFile(t, older, path)
				for _, log := range []string{"-wal", "-shm"} {
					must(t, os.RemoveAll(path+log))
				}
				n = f.start(n.id, tune)
				f.settled(3)
				f.nodes[1].share(t, "last")
				f.lists(append(want, "first", "last")...)
				f.agree(values)
				list, register := n.list.restored(), n.register.restored()
				if compacted != (list+register > 0) || list > 0 && behind != "list.db" || register > 0 && behind != "register.db" {
					t.Errorf("the list was restored %d times, the register %d", list, register)
				}
			})
		}
	}
}

// TestSharedRestoreFails has a node fail, and end, between the restoration of its two databases: both
// have the snapshot in the end.
func TestSharedRestoreFails(t *testing.T) {
	t.Parallel()
	f := newSharing(t).formWith(often, 1, 2)
	f.nodes[1].put(t, "k", "v")
	f.nodes[1].share(t, "first")
	d := f.start(3, often)
	d.list.breaks(errors.New("disk full"))
	invitation, err := f.leader().node.AddNode(within(t, suite.HangLimit), member(3))
	must(t, err)
	joining, cancel := context.WithCancel(within(t, suite.HangLimit))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.node.Join(joining, spec(3, 1, 2, 3), invitation); !errors.Is(err, ErrWaiting) {
			t.Errorf("a node that cannot store the content joins: %v", err)
		}
	})
	eventually(t, func() error {
		if d.register.restored() == 0 {
			return errors.New("the register was not restored yet")
		}
		return nil
	})
	cancel()
	wg.Wait()
	if got := d.list.all(); len(got) > 0 {
		t.Fatalf("the list has %v", got)
	}
	d.kill()
	d = f.start(3, often)
	f.settled(3)
	d.share(t, "last")
	f.lists("first", "last")
	f.agree(map[string]string{"k": "v"})
}

// TestSharedApplyFails suspends a node that cannot apply an entry, until it can.
func TestSharedApplyFails(t *testing.T) {
	t.Parallel()
	f := newSharing(t).form(1, 2, 3)
	n := f.follower()
	n.list.breaks(errors.New("disk full"))
	f.leader().share(t, "e")
	f.leader().put(t, "k", "v")
	eventually(t, func() error {
		if st := n.node.Status(); !strings.Contains(st.ErrMsg, "disk full") {
			return fmt.Errorf("status %+v", st)
		}
		return nil
	})
	n.list.breaks(nil)
	f.settled(3)
	f.lists("e")
	f.agree(map[string]string{"k": "v"})
}

// TestNotShared: a cluster that was created without a Shared stays without, and its snapshots are those
// of earlier releases.
func TestNotShared(t *testing.T) {
	t.Parallel()
	f := newSharing(t)
	a, b := f.start(1), f.start(2)
	_, err := b.list.Apply(t.Context(), 7, []byte("own"))
	must(t, err)
	invitations, err := a.node.Create(within(t, suite.HangLimit), spec(1, 1, 2))
	must(t, err, b.node.Join(within(t, suite.HangLimit), spec(2, 1, 2), invitations[0]))
	f.settled(2)
	a.put(t, "k", "v")
	f.agree(map[string]string{"k": "v"})
	if _, err := f.leader().node.ProposeShared(t.Context(), []byte("e")); !errors.Is(err, errNotShared) {
		t.Errorf("an entry for a Shared: %v", err)
	}
	if got := b.list.all(); !slices.Equal(got, []string{"own"}) {
		t.Errorf("the node that joined has %v", got)
	}
	if known := a.node.membership.Load().fsm.state.Load(); known.Format != keyedFormat {
		t.Errorf("the cluster's state has format %d", known.Format)
	}
	if info, err := a.node.Info(); err != nil || info.Shared || info.Format != keyedFormat {
		t.Errorf("the node says %+v, %v", info, err)
	}
	stored, err := a.node.store.List()
	must(t, err)
	_, r, err := a.node.store.Open(stored[0].ID)
	must(t, err)
	defer r.Close()
	if h, err := readHeader(r); err != nil || h.State.Format != keyedFormat {
		t.Errorf("the header %+v, %v", h, err)
	}
	if rest, err := io.ReadAll(r); err != nil || !bytes.HasPrefix(rest, []byte("{")) {
		t.Errorf("behind the header is %q, %v", rest, err)
	}
}

// TestCannotShare: a node without a Shared is refused with the reason, and nothing in it changes.
func TestCannotShare(t *testing.T) {
	t.Parallel()
	f := newSharing(t).form(1, 2)
	f.nodes[1].share(t, "e")
	without := func(o *Options) { o.Shared = nil }
	d := f.start(3, without)
	if _, err := d.node.Create(t.Context(), func() Spec { s := spec(3, 3); s.Shared = true; return s }()); !errors.Is(err, ErrInvalid) {
		t.Errorf("it creates a cluster with a Shared: %v", err)
	}
	invitation, err := f.leader().node.AddNode(within(t, suite.HangLimit), member(3))
	must(t, err)
	if err := d.node.Join(t.Context(), spec(3, 1, 2, 3), invitation); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "use the release") {
		t.Errorf("it joins: %v", err)
	}
	// An earlier release does not read that in the invitation. The leader does not let it in.
	invitation.Shared = false
	waiting, cancel := context.WithCancel(within(t, suite.HangLimit))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.node.Join(waiting, spec(3, 1, 2, 3), invitation); !errors.Is(err, ErrWaiting) {
			t.Errorf("it joins: %v", err)
		}
	})
	eventually(t, func() error {
		for _, n := range f.leader().node.Status().Nodes {
			if n.NodeID == 3 && errors.Is(n.Err, errPeerCannotShare) && n.Role == RoleSpare {
				return nil
			}
		}
		return errors.New("the leader does not report why the node is not let in")
	})
	cancel()
	wg.Wait()
	if got := d.register.restored(); got > 0 {
		t.Errorf("its register was replaced %d times", got)
	}
	must(t, f.leader().node.RemoveNode(within(t, suite.HangLimit), 3))
	f.atRest(d)
	d.kill()
	f.nodes[2].share(t, "without it")

	f.nodes[2].close()
	o := Options{Dir: filepath.Join(f.dir, "node2", "cluster"), Listen: "127.0.0.1:0", Machine: openRegister(t, filepath.Join(f.dir, "node2", "register.db"))}
	if n, err := Open(t.Context(), o); err == nil {
		must(t, n.Close(t.Context()))
		t.Error("a member takes part without its Shared")
	} else if !errors.Is(err, errCannotShare) {
		t.Error(err)
	}
	must(t, o.Machine.(*register).close())
	f.start(2)
	f.settled(2)
	f.lists("e", "without it")
}

// TestSharedFaults proposes at all nodes while leaders are killed and cut off and logs are compacted:
// what was acknowledged is applied once, in the same order everywhere, what was refused is not.
func TestSharedFaults(t *testing.T) {
	t.Parallel()
	f := newSharing(t).formWith(often, 1, 2, 3)
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	var acknowledged, refused []string
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				n := f.network.at(NodeID(1 + (w+i)%3))
				if n == nil {
					pause(ctx, time.Millisecond)
					continue
				}
				entry := fmt.Sprint(w, "/", i)
				asking, cancel := context.WithTimeout(context.Background(), time.Second)
				request, kept := []byte("share "+entry), &acknowledged
				if i%4 == 3 {
					request, kept = write{entry, "v"}.encode(), new([]string)
				}
				_, err := n.Forward(asking, request)
				cancel()
				mu.Lock()
				switch {
				case err == nil:
					*kept = append(*kept, entry)
				case !errors.Is(err, ErrUnconfirmed) && kept == &acknowledged:
					refused = append(refused, entry)
				}
				mu.Unlock()
			}
		})
	}
	more := func(n int) {
		t.Helper()
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(acknowledged) }
		from := count()
		eventually(t, func() error {
			if got := count() - from; got < n {
				return fmt.Errorf("%d entries were acknowledged, want %d", got, n)
			}
			return nil
		})
	}
	more(30)
	for range 2 {
		killed := f.leader()
		killed.kill()
		more(60)
		f.start(killed.id, often)
		f.settled(3)
		cut := f.leader()
		f.network.isolate(cut.id)
		more(20)
		f.network.mend(cut.id)
		f.settled(3)
		more(10)
	}
	stop()
	wg.Wait()
	f.settled(3)
	all := f.lists(acknowledged...)
	for _, r := range refused {
		if slices.Contains(all, r) {
			t.Errorf("%s was refused, and is applied", r)
		}
	}
	f.agree(nil)
	t.Logf("%d entries acknowledged, %d refused, %d applied", len(acknowledged), len(refused), len(all))
}

// TestSection reads sections of many sizes, one behind the other, and refuses one without an end.
func TestSection(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, maxChunk - 1, maxChunk, maxChunk + 1, 3*maxChunk + 7} {
		content := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		var b bytes.Buffer
		must(t, writeSection(&b, bytes.NewReader(content)), writeSection(&b, strings.NewReader("second")))
		all := b.Bytes()
		read := func(r io.Reader) error {
			got, err := io.ReadAll(r)
			if err == nil && !bytes.Equal(got, content) {
				t.Errorf("%d bytes are read as %d", size, len(got))
			}
			return err
		}
		for _, read := range []func(io.Reader) error{read, func(io.Reader) error { return nil }} {
			r := bytes.NewReader(all)
			must(t, readSection(r, read), readSection(r, func(r io.Reader) error {
				if got, err := io.ReadAll(r); err != nil || string(got) != "second" {
					t.Errorf("behind %d bytes is %q, %v", size, got, err)
				}
				return nil
			}))
		}
		first := len(all) - len("second") - 8
		for _, end := range []int{first - 1, first - 4, first / 2} {
			if err := readSection(bytes.NewReader(all[:max(0, end)]), read); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes of a section of %d are accepted: %v", end, first, err)
			}
		}
	}
	if err := readSection(bytes.NewReader([]byte{255, 255, 255, 255}), func(io.Reader) error { return nil }); !errors.Is(err, errSnapshot) {
		t.Errorf("a chunk without bound: %v", err)
	}
}

// FuzzSection reads anything as a section.
func FuzzSection(f *testing.F) {
	var b bytes.Buffer
	must(f, writeSection(&b, strings.NewReader("content")))
	f.Add(b.Bytes())
	f.Add([]byte("\x00\x00\x00\x02a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got bytes.Buffer
		read := func(r io.Reader) error {
			_, err := io.Copy(&got, r)
			return err
		}
		if err := readSection(bytes.NewReader(b), read); err == nil && got.Len() > len(b)-4 {
			t.Errorf("%d bytes are read from %x", got.Len(), b)
		}
	})
}
