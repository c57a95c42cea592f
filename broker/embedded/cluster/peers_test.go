package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// inbox has the connections that Data and MQTT were called with.
type inbox struct {
	mu    sync.Mutex
	conns []net.Conn
	came  chan NodeID
	asked chan NodeID // who waits for an answer
}

// echo sends back what it receives, until the connection ends.
func (i *inbox) echo(from NodeID, conn net.Conn) {
	i.mu.Lock()
	i.conns = append(i.conns, conn)
	i.mu.Unlock()
	i.came <- from
	defer conn.Close()
	io.Copy(conn, conn)
}

// talkers makes a cluster of nodes that answer and take connections.
func talkers(t *testing.T, ids ...NodeID) (*fleet, *inbox) {
	t.Helper()
	f, in := newFleet(t), &inbox{came: make(chan NodeID, 64), asked: make(chan NodeID, maxServing)}
	for _, id := range ids {
		f.start(id, func(o *Options) {
			calm(o)
			o.Timing.Call = suite.HangLimit
			o.Data, o.MQTT = in.echo, in.echo
			o.Answer = func(ctx context.Context, from NodeID, request []byte) ([]byte, error) {
				switch string(request) {
				case "wait":
					in.asked <- from
					<-ctx.Done()
					return nil, ctx.Err()
				case "no":
					return nil, errors.New("it refuses")
				}
				return fmt.Appendf(nil, "%d heard %d bytes of %d", id, len(request), from), nil
			}
		})
	}
	invitations, err := f.nodes[ids[0]].node.Create(within(t, suite.HangLimit), spec(ids[0], ids...))
	must(t, err)
	for _, i := range invitations {
		must(t, f.nodes[i.NodeID].node.Join(within(t, suite.HangLimit), spec(i.NodeID, ids...), i))
	}
	f.settled(len(ids))
	return f, in
}

// TestAsk asks each node, the leader or not, and returns what may have happened if there is no
// answer.
func TestAsk(t *testing.T) {
	t.Parallel()
	f, in := talkers(t, 1, 2, 3)
	for from, s := range f.nodes {
		for to := range f.nodes {
			got, err := s.node.Ask(within(t, suite.HangLimit), to, make([]byte, 100_000))
			if want := fmt.Sprintf("%d heard 100000 bytes of %d", to, from); err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		}
	}
	n := f.nodes[1].node
	_, err := n.Ask(within(t, suite.HangLimit), 2, []byte("no"))
	if said, ok := errors.AsType[*RemoteError](err); !ok || said.Text != "it refuses" {
		t.Errorf("got %v, want what the other node said", err)
	}
	ctx, cancel := context.WithCancel(within(t, suite.HangLimit))
	go func() {
		<-in.asked
		cancel()
	}()
	_, err = n.Ask(ctx, 2, []byte("wait"))
	if !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("got %v, want %v", err, ErrUnconfirmed)
	}
	if _, err := n.Ask(within(t, suite.HangLimit), 9, nil); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("got %v, want %v", err, ErrUnknownNode)
	}
	f.nodes[3].kill()
	eventually(t, func() error { // the connection may take its time to end
		if _, err := n.Ask(within(t, suite.HangLimit), 3, nil); !errors.Is(err, ErrUnreachable) {
			return fmt.Errorf("got %w, want %w", err, ErrUnreachable)
		}
		return nil
	})
}

// TestAskWhileAnotherWaits answers a node whose other requests are not answered
// for long, and counts it as in contact.
func TestAskWhileAnotherWaits(t *testing.T) {
	t.Parallel()
	f, in := talkers(t, 1, 2)
	l, other := f.leader(), f.follower()
	ctx, cancel := context.WithCancel(within(t, 2*suite.HangLimit))
	var wg sync.WaitGroup
	for range maxServing {
		wg.Go(func() { l.node.Ask(ctx, other.id, []byte("wait")) })
	}
	for range maxServing {
		<-in.asked
	}
	other.put(t, "k", "v")
	from := time.Now()
	eventually(t, func() error {
		for _, c := range l.node.membership.Load().contactsByRef() {
			if c.err != nil || c.at.Before(from) {
				return fmt.Errorf("the other node answered last at %v: %w", c.at, c.err)
			}
		}
		return nil
	})
	if got := l.node.Figures(); got.InContact != 2 {
		t.Errorf("%+v", got)
	}
	cancel()
	wg.Wait()
}

// TestDial sends data both ways.
func TestDial(t *testing.T) {
	t.Parallel()
	f, in := talkers(t, 1, 2)
	conn, err := f.nodes[1].node.Dial(within(t, suite.HangLimit), 2)
	must(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(suite.HangLimit))
	sent := bytes.Repeat([]byte("signal"), 100_000)
	var wg sync.WaitGroup
	wg.Go(func() { conn.Write(sent) })
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("other data came back (%v)", err)
	}
	wg.Wait()
	if from := <-in.came; from != 1 {
		t.Errorf("node 2 was reached by node %d", from)
	}
	for to, want := range map[NodeID]error{1: ErrUnknownNode, 9: ErrUnknownNode} {
		if _, err := f.nodes[1].node.Dial(within(t, suite.HangLimit), to); !errors.Is(err, want) {
			t.Errorf("to node %d: got %v, want %v", to, err, want)
		}
	}
	f.nodes[2].close() // which waits for its end of the connection
	if _, err := conn.Read(got); err == nil {
		t.Error("the connection outlives the other node")
	}
	if _, err := f.nodes[1].node.Dial(within(t, suite.HangLimit), 2); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want %v", err, ErrUnreachable)
	}
}

// TestDialIsBounded closes connections of a node beyond the bound.
func TestDialIsBounded(t *testing.T) {
	t.Parallel()
	f, in := talkers(t, 1, 2)
	for range maxData {
		conn, err := f.nodes[1].node.Dial(within(t, suite.HangLimit), 2)
		must(t, err)
		defer conn.Close()
		<-in.came
	}
	conn, err := f.nodes[1].node.Dial(within(t, suite.HangLimit), 2)
	must(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(suite.HangLimit))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one too many is open (%v)", err)
	}
	if len(in.came) > 0 {
		t.Error("one too many was handed over")
	}
}

// TestDataEndsWithMembership closes the connections of a removed node, at both ends and of both
// kinds, and accepts none from a node that is not a member.
func TestDataEndsWithMembership(t *testing.T) {
	t.Parallel()
	f, in := talkers(t, 1, 2, 3)
	l, gone := f.leader(), f.follower()
	out, err := l.node.Dial(within(t, suite.HangLimit), gone.id)
	must(t, err)
	defer out.Close()
	back, err := gone.node.Dial(within(t, suite.HangLimit), l.id)
	must(t, err)
	defer back.Close()
	<-in.came
	<-in.came
	b := gone.node.membership.Load().credentials
	must(t, l.node.RemoveNode(within(t, suite.HangLimit), gone.id))
	for name, conn := range map[string]net.Conn{"to": out, "from": back} {
		conn.SetDeadline(time.Now().Add(suite.HangLimit))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a connection %s a node that was removed is open (%v)", name, err)
		}
	}
	f.atRest(gone)
	m := member(l.id)
	m.Generation = firstIndex
	conn, err := dial(within(t, suite.HangLimit), b, m.ref(), m.hostPort(), protocolData)
	must(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(suite.HangLimit))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("who was removed may come with data (%v)", err)
	}
	if len(in.came) > 0 {
		t.Error("who was removed is handed over")
	}
	if got, ok := gone.node.Peers(); ok || gone.node.Term() != 0 {
		t.Errorf("at rest it has peers %v", got)
	}
}

// TestPeers lists members that join and leave.
func TestPeers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	changes := make(chan struct{}, 1)
	f.start(1, func(o *Options) { o.Changed = func() { notify(changes) } })
	_, err := f.nodes[1].node.Create(within(t, suite.HangLimit), spec(1, 1))
	must(t, err)
	peers := func(want ...NodeID) {
		t.Helper()
		eventually(t, func() error {
			<-changes
			var got []NodeID
			others, _ := f.nodes[1].node.Peers()
			for _, m := range others {
				got = append(got, m.NodeID)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the peers are %v, want %v", got, want)
			}
			return nil
		})
	}
	peers()
	term := f.nodes[1].node.Term()
	leadership, err := f.nodes[1].node.Lead(within(t, suite.HangLimit))
	must(t, err)
	if term == 0 || leadership.Term() != term {
		t.Errorf("the term is %d, that of the leadership %d", term, leadership.Term())
	}
	_, err = f.nodes[1].node.AddNode(within(t, suite.HangLimit), member(2))
	must(t, err)
	peers(2)
	must(t, f.nodes[1].node.RemoveNode(within(t, suite.HangLimit), 2))
	peers()
}
