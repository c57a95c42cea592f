package claims_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// crossing brings the messages of a node to those that, as far as it knows, have
// subscribers for them, and tells these what is subscribed to there.
type crossing struct {
	node  *node
	links map[int]*link
	ended sync.WaitGroup

	mu      sync.Mutex
	filters map[string]int
	changed map[string]struct{}
	wake    chan struct{}
	quit    chan struct{}
	telling sync.Mutex
}

// link carries messages to another node. It is slow, and each message waits until
// the one before is stored.
type link struct {
	lane chan crossed
	quit chan struct{}
	peer *engine.Peer
	to   *node
}

// crossed is a message on its way or, without one, somebody who waits for those
// before.
type crossed struct {
	message *engine.Message
	engine.Crossing
	passed chan struct{}
}

func newCrossing(n *node) *crossing {
	x := &crossing{
		node: n, links: map[int]*link{}, filters: map[string]int{}, changed: map[string]struct{}{}, wake: make(chan struct{}, 1),
		quit: make(chan struct{}),
	}
	n.Identify(uint16(n.number))
	for _, to := range n.Peers() {
		l := &link{lane: make(chan crossed, 1<<16), quit: x.quit, to: n.cluster.nodes[to-1]}
		l.peer = n.AddPeer(fmt.Sprint(to), l)
		l.peer.SetLinked(true)
		x.links[to] = l
		x.ended.Go(l.carry)
	}
	return x
}

// open begins to tell of subscriptions.
func (x *crossing) open() {
	x.node.SetRoutes(x)
	x.ended.Go(func() {
		for {
			select {
			case <-x.wake:
				<-time.After(time.Millisecond)
				x.tell()
			case <-x.quit:
				return
			}
		}
	})
}

func (x *crossing) stop() {
	x.node.SetRoutes(nil)
	close(x.quit)
	for _, l := range x.links {
		l.peer.Remove()
	}
	x.ended.Wait()
}

func (x *crossing) Joined(filter string, _ engine.Interest) { x.note(filter, 1) }
func (x *crossing) Left(filter string, _ engine.Interest)   { x.note(filter, -1) }

func (x *crossing) note(filter string, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.filters[filter] += n
	x.changed[filter] = struct{}{}
	select {
	case x.wake <- struct{}{}:
	default:
	}
}

func (x *crossing) Known(context.Context) { x.tell() }

// tell tells the other nodes what has changed.
func (x *crossing) tell() {
	x.telling.Lock()
	defer x.telling.Unlock()
	x.mu.Lock()
	now := map[string]int{}
	for filter := range x.changed {
		now[filter] = x.filters[filter]
	}
	clear(x.changed)
	x.mu.Unlock()
	for _, to := range x.links {
		back := to.to.cross.links[x.node.number].peer
		for filter, n := range now {
			if n > 0 {
				back.Announce(filter, engine.Interest{QoS: 2})
			} else {
				back.Withdraw(filter)
			}
		}
	}
}

func (l *link) Backlog() (int, bool) { return len(l.lane), false }
func (l *link) Room()                {}

func (l *link) Take(m *engine.Message, c engine.Crossing) { l.lane <- crossed{message: m, Crossing: c} }

func (l *link) carry() {
	receiver := l.to.NewReceiver()
	for {
		var x crossed
		select {
		case x = <-l.lane:
		case <-l.quit:
			return
		}
		if x.message == nil {
			close(x.passed)
			continue
		}
		<-time.After(50 * time.Microsecond)
		m := x.message
		r := &receipt{done: make(chan error, 1)}
		again := &engine.Message{Topic: m.Topic, Payload: m.Payload, QoS: m.QoS, CreatedAt: m.CreatedAt, Publisher: m.Publisher, Stamp: m.Stamp}
		receiver.Receive(again, engine.Crossing{Direct: x.Direct, QoS: x.QoS, Receipt: r}, false)
		receiver.Flush()
		err := <-r.done
		if x.Receipt != nil {
			x.Receipt.Settled(err)
		}
	}
}

type receipt struct{ done chan error }

func (r *receipt) Settled(err error) { r.done <- err }

// flush waits until all that was sent to a node has arrived.
func (x *crossing) flush(ctx context.Context, to int) error {
	passed := make(chan struct{})
	x.links[to].lane <- crossed{passed: passed}
	select {
	case <-passed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
