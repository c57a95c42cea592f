package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/raft"

	"signalbox/scripts/suite"
)

// TestReturningNodeRefusesRemoved restarts a node that was away when another one was removed. The
// removed node connects first, with everything that it had. It is refused, though the returning node
// has not received the removal by the log yet.
func TestReturningNodeRefusesRemoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var unreachable atomic.Value // an address that no node connects to
	tune := blockable(&unreachable)
	_, away, gone, had := f.awayAndRemoved(tune)
	as, err := had.show()
	must(t, err)
	a := &attacker{t: t, uuid: had.uuid}
	unreachable.Store(member(away.id).hostPort()) // so that the log does not come
	back := f.start(away.id, tune)
	addr, err := back.node.Addr(t.Context())
	must(t, err)
	for _, protocol := range []string{protocolRaft, protocolData} {
		if a.isLetIn(addr, protocol, *as) {
			t.Errorf("the removed node is let in for %s", protocol)
		}
	}
	if got, err := a.ask(addr, *as, callForward, string(write{"stolen", "yes"}.encode())); err == nil || errors.Is(err, ErrNoLeader) {
		t.Errorf("the removed node is answered %q, %v", got.payload, err)
	}
	if !back.node.membership.Load().fsm.state.Load().has(memberRef{gone.id, firstIndex}) {
		t.Error("the node that came back knows of the removal already, so nothing was tested")
	}
	unreachable.Store("")
	f.settled(2)
}

// pretend listens with the credentials of a node, and sends the same response to each request.
func (f *fleet) pretend(id NodeID, b *credentials, as peerStatus) {
	f.t.Helper()
	text, err := json.Marshal(as)
	must(f.t, err)
	p := &port{
		log: slog.New(slog.DiscardHandler), refusals: &refusals{}, handshake: suite.HangLimit, credentials: func(string) *credentials { return b },
		consensus: func(*credentials, *presented, net.Conn) bool { return false },
		data:      func(*credentials, *presented, net.Conn) bool { return false },
		answer:    func(context.Context, *credentials, *presented, frame) frame { return reply(text, nil) },
	}
	must(f.t, p.open(context.Background(), "127.0.0.1:0"))
	f.t.Cleanup(func() { must(f.t, p.close()) })
	f.network.set(id, &Node{transition: make(chan struct{}, 1), port: p})
}

// awayAndRemoved forms a cluster of three nodes, stops one, removes another one, and restarts the
// first so that the leader's log does not reach it. It returns the leader, what the removed node
// had, and a function that starts the node that was away.
func (f *fleet) awayAndRemoved(others func(o *Options)) (leader, away, gone *station, had *credentials) {
	f.t.Helper()
	f.formWith(others, 1, 2, 3)
	leader = f.leader()
	for _, s := range f.nodes {
		switch {
		case s == leader:
		case away == nil:
			away = s
		default:
			gone = s
		}
	}
	had = gone.node.membership.Load().credentials
	away.kill()
	must(f.t, leader.node.RemoveNode(within(f.t, suite.HangLimit), gone.id))
	f.atRest(gone)
	return leader, away, gone, had
}

// blockable returns options that allow no connection to one address.
func blockable(to *atomic.Value) func(*Options) {
	to.Store("")
	return func(o *Options) {
		calm(o)
		o.Timing.Call = suite.HangLimit // who answers late is asked with success
		dial := o.dial
		o.dial = func(ctx context.Context, hostPort string) (net.Conn, error) {
			if hostPort == to.Load() {
				return nil, errors.New("it cannot be reached")
			}
			return dial(ctx, hostPort)
		}
	}
}

// TestReturningNodeIsNotTalkedOut starts a node to which a removed node reports that the returning
// node was removed.
func TestReturningNodeIsNotTalkedOut(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var unreachable atomic.Value
	tune := blockable(&unreachable)
	leader, away, gone, had := f.awayAndRemoved(tune)
	had.known = func() *state { return leader.node.membership.Load().known() }
	had.reportedMember, had.askAbout, had.reportedRemoved = nil, nil, nil
	f.pretend(gone.id, had, peerStatus{Seeded: true, Removed: true})
	unreachable.Store(member(away.id).hostPort()) // so that there is no leader
	back := f.start(away.id, tune)
	eventually(t, func() error {
		s := back.node.membership.Load()
		if s == nil {
			return nil
		}
		for _, c := range s.contactsByRef() {
			if c.err != nil || c.at.IsZero() {
				return fmt.Errorf("not all have answered: %+v", s.contactsByRef())
			}
		}
		return nil
	})
	if back.node.departureReason(back.node.membership.Load()) != "" {
		t.Fatal("the node believes that it was removed")
	}
	unreachable.Store("")
	f.settled(2)
}

// TestRemovedNodeIsCutOffLater restarts a node that can reach the removed one first, and later the
// one that knows of the removal: from then on the removed one is refused, also on existing
// connections.
func TestRemovedNodeIsCutOffLater(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var toAway, toLeader atomic.Value
	tune, taken := blockable(&toAway), make(chan net.Conn, 1)
	leader, away, gone, had := f.awayAndRemoved(tune)
	as, err := had.show()
	must(t, err)
	a := &attacker{t: t, uuid: had.uuid}
	toAway.Store(member(away.id).hostPort())
	block := blockable(&toLeader)
	toLeader.Store(member(leader.id).hostPort())
	back := f.start(away.id, block, func(o *Options) {
		o.Data = func(_ NodeID, conn net.Conn) { taken <- conn }
	})
	addr, err := back.node.Addr(t.Context())
	must(t, err)
	conn, err := a.connect(addr, protocolData, *as)
	must(t, err)
	defer conn.Close()
	defer (<-taken).Close()
	toLeader.Store("")
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			t.Error("the removed node keeps its connection")
		}
	}
	if !back.node.membership.Load().fsm.state.Load().has(memberRef{gone.id, firstIndex}) {
		t.Error("the node that came back knows of the removal already, so nothing was tested")
	}
	toAway.Store("")
	f.settled(2)
}

// TestReportedNodeIsRemoved adds a node and removes it while another one cannot store the log: the
// reports about the new node, on which that node relied, end with its membership.
func TestReportedNodeIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	disks := map[NodeID]*limitedDisk{}
	f.formWith(func(o *Options) {
		d := &limitedDisk{}
		disks[NodeID(len(disks)+1)] = d
		o.logs = func(s raft.LogStore) raft.LogStore { d.LogStore = s; return d }
	}, 1, 2, 3)
	s := f.follower()
	l := f.nodes[1+s.id%3]
	disks[s.id].full.Store(true)
	f.start(4)
	var invitation Invitation
	eventually(t, func() (err error) {
		invitation, err = f.leader(l.id, 1+l.id%3, s.id).node.AddNode(within(t, suite.HangLimit), member(4))
		return err
	})
	must(t, f.nodes[4].node.Join(within(t, suite.HangLimit), spec(4, 1, 2, 3, 4), invitation))
	added := f.nodes[4].node.membership.Load().credentials // of its own key soon
	ask := func() (frame, error) {
		as, err := added.show()
		must(t, err)
		addr, err := s.node.Addr(t.Context())
		must(t, err)
		return (&attacker{t: t, uuid: invitation.UUID}).ask(addr, *as, callStatus, "")
	}
	eventually(t, func() error { // not while the node asks the others about another connection
		if _, err := ask(); err != nil {
			return fmt.Errorf("a node that was added later is refused: %w", err)
		}
		return nil
	})
	eventually(t, func() error {
		if err := f.leader().node.RemoveNode(within(t, suite.HangLimit), 4); !errors.Is(err, ErrUnknownNode) {
			return err
		}
		return nil // it was removed before, and the answer was lost
	})
	f.atRest(f.nodes[4])
	eventually(t, func() error {
		if got, err := ask(); err == nil {
			return fmt.Errorf("a node that was removed is answered %s", got.payload)
		}
		return nil
	})
	if s.node.membership.Load().fsm.appliedIndex() >= invitation.Generation {
		t.Error("the node knows of the new one by its log, so nothing was tested")
	}
	disks[s.id].full.Store(false)
	f.settled(3)
}
