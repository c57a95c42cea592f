package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestCreateTakesOver replaces the state of a joining node's machine by that of the node that
// created the cluster.
func TestCreateTakesOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a, b := f.start(1), f.start(2)
	for i := range 9 { // a higher index than the cluster will have for a while
		b.register.Apply(uint64(100+i), write{"own", fmt.Sprint(i)}.encode())
	}
	a.register.Apply(7, write{"of a", "1"}.encode())
	invitations, err := a.node.Create(within(t, suite.HangLimit), spec(1, 1, 2))
	must(t, err, b.node.Join(within(t, suite.HangLimit), spec(2, 1, 2), invitations[0]))
	f.settled(2)
	a.put(t, "new", "2")
	f.agree(map[string]string{"of a": "1", "own": "", "new": "2"})
}

// TestRestartComesBack closes all nodes and opens them again: nothing is lost, and no snapshot is
// restored.
func TestRestartComesBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	f.nodes[1].put(t, "k", "v")
	f.agree(map[string]string{"k": "v"})
	for _, s := range f.nodes {
		s.close()
	}
	for _, id := range []NodeID{1, 2, 3} {
		f.start(id)
	}
	f.settled(3)
	f.nodes[2].put(t, "l", "w")
	f.agree(map[string]string{"k": "v", "l": "w"})
	for id, s := range f.nodes {
		if s.register.restores > 0 {
			t.Errorf("node %d restored %d times what it had", id, s.register.restores)
		}
		info, err := s.node.Info()
		if err != nil || info.Name != "c" || info.SyncMode != "dynsec" || info.Self != id || len(info.Nodes) != 3 || info.Warning != "" {
			t.Errorf("node %d says %+v, %v", id, info, err)
		}
	}
}

// TestAddAndRemove adds a fourth node, and removes one, which comes to rest with its data.
func TestAddAndRemove(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	f.nodes[1].put(t, "k", "v")
	l := f.leader()
	d := f.start(4, calm)
	invitation, err := l.node.AddNode(within(t, suite.HangLimit), member(4))
	must(t, err)
	if st := l.node.Status(); st.Nodes[3].Role != RoleSpare {
		t.Errorf("who has not joined has role %d", st.Nodes[3].Role)
	}
	must(t, d.node.Join(within(t, suite.HangLimit), spec(4, 1, 2, 3, 4), invitation))
	f.settled(4)
	d.put(t, "by 4", "x")
	f.agree(map[string]string{"k": "v", "by 4": "x"})

	gone := f.follower()
	must(t, f.leader().node.RemoveNode(within(t, suite.HangLimit), gone.id))
	f.atRest(gone)
	f.settled(3)
	f.leader().put(t, "later", "y")
	if got := gone.register.all(); got["k"] != "v" || got["later"] != "" {
		t.Errorf("the node that went holds %v", got)
	}
	if err := f.leader().node.RemoveNode(within(t, suite.HangLimit), gone.id); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("got %v, want %v", err, ErrUnknownNode)
	}
}

// atRest waits until a node is at rest, with its port closed.
func (f *fleet) atRest(s *station) {
	f.t.Helper()
	eventually(f.t, func() error {
		if _, err := s.node.Info(); !errors.Is(err, ErrNotClustered) {
			return fmt.Errorf("node %d is not at rest: %v", s.id, err)
		}
		if addr, err := s.node.Addr(f.t.Context()); addr != "" || err != nil {
			return fmt.Errorf("node %d still listens at %s (%v)", s.id, addr, err)
		}
		return nil
	})
	if st := s.node.Status(); st.State != StateUnavailable || st.ErrMsg == "" {
		f.t.Errorf("node %d at rest has status %+v", s.id, st)
	}
}

// TestRemovedIsToldAtOnce removes a node that would ask for its membership only long after it has
// lost contact with the leader.
func TestRemovedIsToldAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) {
		calm(o)
		o.Timing.Election, o.Timing.Call = suite.HangLimit, suite.HangLimit
	}, 1, 2, 3)
	gone := f.follower()
	must(t, f.leader().node.RemoveNode(within(t, suite.HangLimit), gone.id))
	f.atRest(gone)
}

// TestRemovedWhileAway starts a node that was removed while it was away: it learns of that.
func TestRemovedWhileAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	gone := f.follower()
	gone.kill()
	must(t, f.leader().node.RemoveNode(within(t, suite.HangLimit), gone.id))
	f.settled(2)
	f.atRest(f.start(gone.id, calm))
}

// TestLostDirectory adds a node that has lost everything again, under its id. A node that still
// answers is not replaced.
func TestLostDirectory(t *testing.T) {
	t.Parallel()
	patient := func(o *Options) {
		calm(o)
		o.Timing.Call = suite.HangLimit // who answers late is not lost
	}
	f := newFleet(t).formWith(patient, 1, 2, 3)
	f.nodes[1].put(t, "k", "v")
	lost := f.follower()
	if _, err := f.leader().node.AddNode(within(t, suite.HangLimit), member(lost.id)); !errors.Is(err, ErrMember) {
		t.Errorf("got %v, want %v", err, ErrMember)
	}
	lost.kill()
	lost.lose()
	lost = f.start(lost.id, patient)
	invitation, err := f.leader().node.AddNode(within(t, suite.HangLimit), member(lost.id))
	must(t, err, lost.node.Join(within(t, suite.HangLimit), spec(lost.id, 1, 2, 3), invitation))
	f.settled(3)
	lost.put(t, "l", "w")
	f.agree(map[string]string{"k": "v", "l": "w"})
}

// TestStaleInvitation refuses an invitation that a later one replaced.
func TestStaleInvitation(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	first, err := f.nodes[1].node.AddNode(within(t, suite.HangLimit), member(2))
	must(t, err)
	second, err := f.nodes[1].node.AddNode(within(t, suite.HangLimit), member(2))
	must(t, err)
	b := f.start(2)
	if err := b.node.Join(within(t, suite.HangLimit), spec(2, 1, 2), first); !errors.Is(err, ErrInvitation) {
		t.Fatalf("got %v, want %v", err, ErrInvitation)
	}
	f.atRest(b)
	must(t, b.node.Join(within(t, suite.HangLimit), spec(2, 1, 2), second))
	f.settled(2)
}

// TestJoinWaits joins while the other members are away: the node waits, also after a restart.
func TestJoinWaits(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	invitation, err := f.nodes[1].node.AddNode(within(t, suite.HangLimit), member(2))
	must(t, err)
	f.network.isolate(1)
	ctx, cancel := context.WithCancel(within(t, suite.HangLimit))
	b := f.start(2, func(o *Options) { o.Changed = cancel }) // once it has joined
	if err := b.node.Join(ctx, spec(2, 1, 2), invitation); !errors.Is(err, ErrWaiting) {
		t.Fatalf("got %v, want %v", err, ErrWaiting)
	}
	if err := b.node.Join(within(t, suite.HangLimit), spec(2, 1, 2), invitation); !errors.Is(err, ErrClustered) {
		t.Errorf("got %v, want %v", err, ErrClustered)
	}
	b.close()
	f.start(2)
	f.network.mend(1)
	f.settled(2)
}

// TestLeave makes followers and the leader leave, one after the other, until the last one ends the
// cluster.
func TestLeave(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	f.nodes[1].put(t, "k", "v")
	f.agree(map[string]string{"k": "v"})
	for n, s := range []*station{f.leader(), nil, nil} {
		if s == nil {
			s = f.leader()
		}
		must(t, s.node.Leave(within(t, suite.HangLimit)))
		f.atRest(s)
		if got := s.register.get("k"); got != "v" {
			t.Errorf("node %d left with %q", s.id, got)
		}
		if n < 2 {
			s.close()
			f.settled(2 - n)
		}
	}
}

// TestLeaveAlone makes a node leave that reaches no others. Once there has been no leader for
// long, it does not wait for one for half of its time.
func TestLeaveAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) { o.Timing.NoLeader = time.Second }, 1, 2, 3)
	gone := f.follower()
	f.network.isolate(gone.id)
	ctx := within(t, 2*suite.HangLimit)
	must(t, gone.node.Leave(ctx))
	if deadline, _ := ctx.Deadline(); time.Until(deadline) < suite.HangLimit {
		t.Error("the node has waited for a leader for half of the time")
	}
	f.atRest(gone)
}

// TestDelete dissolves a cluster. All nodes that can be reached come to rest with the same data; a
// node that is away does so when it is back.
func TestDelete(t *testing.T) {
	t.Parallel()
	patient := func(o *Options) {
		calm(o)
		o.Timing.Dissolve = suite.HangLimit / 2
	}
	f := newFleet(t).formWith(patient, 1, 2, 3)
	away := f.follower()
	away.kill()
	l := f.leader()
	l.put(t, "k", "v")
	must(t, l.node.Delete(within(t, suite.HangLimit)))
	for id, s := range f.nodes {
		if s == away {
			continue
		}
		eventually(t, func() error {
			if _, err := s.node.Info(); !errors.Is(err, ErrNotClustered) {
				return fmt.Errorf("node %d is not at rest: %v", id, err)
			}
			return nil
		})
		if got := s.register.get("k"); got != "v" {
			t.Errorf("node %d holds %q", id, got)
		}
	}
	l.close() // its tombstone is stored
	f.start(l.id, calm)
	f.start(away.id, calm)
	for _, s := range f.nodes {
		f.atRest(s)
	}
	again, err := f.nodes[2].node.Create(within(t, suite.HangLimit), spec(2, 2, 3))
	must(t, err, f.nodes[3].node.Join(within(t, suite.HangLimit), spec(3, 2, 3), again[0]))
	f.settled(2)
}

// TestDeleteWithoutMajority changes nothing.
func TestDeleteWithoutMajority(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2)
	l := f.leader()
	f.nodes[3-l.id].kill()
	if err := l.node.Delete(within(t, time.Second)); err == nil {
		t.Error("the cluster was dissolved by one of two")
	}
	if _, err := l.node.Info(); err != nil {
		t.Errorf("the node has left: %v", err)
	}
}

// TestSetLeader makes each node lead in turn.
func TestSetLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	for id := range f.nodes {
		must(t, f.leader().node.SetLeader(within(t, suite.HangLimit), id))
		eventually(t, func() error {
			if got := f.leader(); got.id != id {
				return fmt.Errorf("node %d leads, want %d", got.id, id)
			}
			return nil
		})
	}
	if err := f.leader().node.SetLeader(within(t, suite.HangLimit), 9); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("got %v, want %v", err, ErrUnknownNode)
	}
}

// TestOnlyTheLeader checks that a follower refuses what only the leader can do.
func TestOnlyTheLeader(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(calm, 1, 2, 3)
	n := f.follower().node
	ctx := within(t, suite.HangLimit)
	_, add := n.AddNode(ctx, member(4))
	_, _, propose := n.Propose(ctx, nil)
	for name, err := range map[string]error{
		"add": add, "propose": propose, "remove": n.RemoveNode(ctx, 1), "set leader": n.SetLeader(ctx, 1), "delete": n.Delete(ctx),
	} {
		if !errors.Is(err, ErrNotLeader) {
			t.Errorf("%s: got %v, want %v", name, err, ErrNotLeader)
		}
	}
}

// TestRefusedSpecs refuses invalid specs with a reason.
func TestRefusedSpecs(t *testing.T) {
	t.Parallel()
	s := newFleet(t).start(1)
	twice, same, zero, port := spec(1, 1, 1), spec(1, 1, 2), spec(1, 1, 0), spec(1, 1, 2)
	same.Members[1].Address = same.Members[0].Address
	port.Members[1].Port = 65536
	nameless, modeless := spec(1, 1), spec(1, 1)
	nameless.Name, modeless.SyncMode = "", ""
	for name, spec := range map[string]Spec{
		"an id twice": twice, "an address twice": same, "id 0": zero, "a port": port, "no name": nameless, "no syncmode": modeless,
		"no nodes": {Name: "c", SyncMode: "dynsec", Self: 1}, "eight nodes": spec(1, 1, 2, 3, 4, 5, 6, 7, 8), "not among them": spec(3, 1, 2),
	} {
		if _, err := s.node.Create(within(t, suite.HangLimit), spec); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
		}
	}
	if w := spec(1, 1, 2).Warning(); w == "" {
		t.Error("two nodes are no reason for a warning")
	}
}

// TestChanged checks that Changed is called for members that join or leave and for leaders.
func TestChanged(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	changed := make(chan struct{}, 100)
	s := f.start(1, func(o *Options) { o.Changed = func() { changed <- struct{}{} } })
	_, err := s.node.Create(within(t, suite.HangLimit), spec(1, 1))
	must(t, err)
	eventually(t, func() error {
		<-changed
		if _, ok := s.node.Leader(); !ok || !s.node.IsLeader() {
			return errors.New("nobody leads")
		}
		return nil
	})
	must(t, s.node.Delete(within(t, suite.HangLimit)))
	for len(changed) > 0 || !slices.Contains([]int{StateUnavailable}, s.node.Status().State) {
		<-changed
	}
}

// TestLateEnding keeps a node in its cluster when it learns, late, of the dissolution of an
// earlier one.
func TestLateEnding(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1)
	s := f.nodes[1]
	old := s.node.membership.Load().credentials.uuid
	must(t, s.node.Delete(within(t, suite.HangLimit)))
	must(t, s.node.depart(old, reasonLeft)) // no caller waits for it any more
	_, err := s.node.Create(within(t, suite.HangLimit), spec(1, 1))
	must(t, err)
	must(t, s.node.depart(old, reasonDissolved))
	s.node.checkMembership(t.Context())
	s.put(t, "k", "v")
	s.close()
	s = f.start(1)
	s.node.checkMembership(t.Context())
	s.put(t, "l", "w")
	f.agree(map[string]string{"k": "v", "l": "w"})
}

// late is a register that applies slowly.
type late struct{ *register }

func (l late) Apply(index uint64, command []byte) any {
	pause(context.Background(), 30*time.Millisecond)
	return l.register.Apply(index, command)
}

// TestDeleteWaitsForTheLate dissolves a cluster while a node lags: it comes to rest with
// everything that was committed, whichever node announces the dissolution.
func TestDeleteWaitsForTheLate(t *testing.T) {
	t.Parallel()
	f := newFleet(t).formWith(func(o *Options) {
		calm(o)
		o.Timing.Dissolve = suite.HangLimit / 2
		if strings.HasSuffix(filepath.Dir(o.Dir), "node3") {
			o.Machine = late{o.Machine.(*register)}
		}
	}, 1, 2, 3)
	l := f.leader()
	if l.id == 3 {
		must(t, l.node.SetLeader(within(t, suite.HangLimit), 1))
		l = f.leader(1, 2)
	}
	leadership, err := l.node.Lead(within(t, suite.HangLimit))
	must(t, err)
	for i := range 50 {
		leadership.Begin(write{fmt.Sprint("k", i), "v"}.encode())
	}
	must(t, l.node.Delete(within(t, suite.HangLimit)))
	f.atRest(f.nodes[3])
	if got := len(f.nodes[3].register.all()); got != 50 {
		t.Errorf("the node that was late ended with %d values of 50", got)
	}
}
