package sessions_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// setAway isolates a node from all others, its links included, or reconnects it.
func (n *node) setAway(away bool) {
	n.setIsolated(away)
	for _, other := range n.cluster.nodes {
		if other == n {
			continue
		}
		for _, l := range []link{{n.number, other.number}, {other.number, n.number}} {
			if away {
				n.cluster.breakLink(l.from, l.to)
			} else {
				n.cluster.mendLink(l.from, l.to)
			}
		}
	}
}

// leaveWithSession has a client begin a session at a node, which is then away for longer than the grace period.
func (n *node) leaveWithSession(filter string) {
	c := n.Connect(keeps("c"))
	c.Subscribe(filter, 2)
	c.Close()
	n.setAway(true)
	<-time.After(20 * time.Second)
}

// publishRange publishes messages of QoS 1 and 2 in turn, which must be acknowledged.
func (n *node) publishRange(topic string, from, to int) {
	n.T.Helper()
	for i := from; i < to; i++ {
		check(n.T, n.Publish(&engine.Message{Topic: topic, QoS: byte(1 + i%2), Payload: fmt.Append(nil, i), CreatedAt: time.Now().UnixMilli()}))
	}
}

// wantPayloads receives messages, and completes their flows. Afterwards the node has processed all but the last
// PUBACK or PUBCOMP.
func wantPayloads(t *testing.T, c *enginetest.Client, want ...int) {
	t.Helper()
	unreleased := map[uint16]bool{}
	for next := 0; next < len(want) || len(unreleased) > 0; {
		p, err := c.Read()
		check(t, err)
		switch p[0] >> 4 {
		case packet.TypePubrel:
			delete(unreleased, enginetest.PacketID(p))
			c.Ack(packet.TypePubcomp, enginetest.PacketID(p))
		case packet.TypePublish:
			if next == len(want) {
				t.Fatalf("got another message after %v: %x", want, p)
			}
			var m packet.Publish
			check(t, packet.DecodePublish(p, packet.V5, &m))
			if string(m.Payload) != fmt.Sprint(want[next]) {
				t.Fatalf("got message %s, want %d of %v", m.Payload, want[next], want)
			}
			c.Ack(packet.TypePuback+m.QoS-1, m.PacketID)
			if m.QoS == 2 {
				unreleased[m.PacketID] = true
			}
			next++
		}
	}
}

// TestReplacedWhileAway has a client begin a new session while the node with its session is away for
// longer than the grace period. The client gets each message once: those for the new session at
// once, and when the node is back those before it had subscribed again, in order.
func TestReplacedWhileAway(t *testing.T) { inVirtualTime(t, testReplacedWhileAway) }

func testReplacedWhileAway(t *testing.T) {
	const grace = 10 * time.Second
	c := newCluster(t, 3)
	first, away := c.nodes[0], c.nodes[2]
	old := away.Connect(keeps("c"))
	old.Subscribe("a/#", 2)
	old.Subscribe("b", 2)
	old.Close()
	away.setAway(true)
	<-time.After(2 * grace)
	first.publishRange("a/1", 0, 4)
	s := c.nodes[1].Connect(keeps("c"))
	if s.Present {
		t.Error("a session is present")
	}
	first.publishRange("a/1", 4, 6) // before it has subscribed
	s.Subscribe("a/#", 2)
	first.publishRange("a/1", 6, 10)
	c.nodes[1].publishRange("a/2", 10, 12)
	first.publishRange("b", 12, 14) // for the old session only
	wantPayloads(t, s, 6, 7, 8, 9, 10, 11)
	away.setAway(false)
	wantPayloads(t, s, 0, 1, 2, 3, 4, 5, 12, 13)
	until(t, "one session is left", func() bool { return len(c.owners("c")) == 1 })
	first.publishRange("a/1", 14, 16)
	wantPayloads(t, s, 14, 15)
}

// TestReplacedAndMovedWhileAway is TestReplacedWhileAway with a new session that moves to another
// node meanwhile, and back.
func TestReplacedAndMovedWhileAway(t *testing.T) { inVirtualTime(t, testReplacedAndMovedWhileAway) }

func testReplacedAndMovedWhileAway(t *testing.T) {
	c := newCluster(t, 3)
	first, away := c.nodes[0], c.nodes[2]
	away.leaveWithSession("a")
	first.publishRange("a", 0, 4)
	s := c.nodes[1].Connect(keeps("c"))
	s.Subscribe("a", 2)
	first.publishRange("a", 4, 8)
	next := 8
	wantPayloads(t, s, 4, 5, 6, 7)
	for _, n := range []*node{first, c.nodes[1], first} {
		s.Close()
		s = n.Connect(keeps("c"))
		first.publishRange("a", next, next+2)
		wantPayloads(t, s, next, next+1)
		next += 2
	}
	away.setAway(false)
	wantPayloads(t, s, 0, 1, 2, 3)
	until(t, "one session is left", func() bool { return len(c.owners("c")) == 1 })
	first.publishRange("a", next, next+2)
	wantPayloads(t, s, next, next+1)
}

// TestReplacedAndReceivedUnknown is TestReplacedAndMovedWhileAway with a new session that has received more topics
// than are remembered. What it has received is not known: at QoS 1 it is delivered again, at QoS 2 only what was
// published before the session began.
func TestReplacedAndReceivedUnknown(t *testing.T) { inVirtualTime(t, testReplacedAndReceivedUnknown) }

func testReplacedAndReceivedUnknown(t *testing.T) {
	c := newCluster(t, 3)
	first, away := c.nodes[0], c.nodes[2]
	away.leaveWithSession("a")
	first.publishRange("a", 0, 4)
	s := c.nodes[1].Connect(keeps("c"))
	s.Subscribe("#", 2)
	<-time.After(2 * time.Millisecond) // what is published in the millisecond of the CONNECT counts as before it
	first.publishRange("a", 4, 8)
	wantPayloads(t, s, 4, 5, 6, 7)
	for i := range 300 {
		first.publishRange(fmt.Sprint("b/", i), i, i+1)
		wantPayloads(t, s, i)
	}
	s.Close()
	s = first.Connect(keeps("c"))
	away.setAway(false)
	wantPayloads(t, s, 0, 1, 2, 3, 4, 6)
}

// TestReplacedAndRetainedWhileAway is TestReplacedWhileAway with a retained message that the client is sent when it
// subscribes, and has had before: the client gets what was published since.
func TestReplacedAndRetainedWhileAway(t *testing.T) {
	inVirtualTime(t, testReplacedAndRetainedWhileAway)
}

func testReplacedAndRetainedWhileAway(t *testing.T) {
	c := newCluster(t, 3)
	node, away := c.nodes[0], c.nodes[2]
	old := away.Connect(keeps("c"))
	old.Subscribe("a", 2)
	check(t, node.Publish(&engine.Message{Topic: "a", QoS: 1, Retain: true, Payload: []byte("0"), CreatedAt: time.Now().UnixMilli()}))
	wantPayloads(t, old, 0)
	old.Close()
	away.setAway(true)
	<-time.After(20 * time.Second)
	node.publishRange("a", 1, 5)
	s := node.Connect(keeps("c"))
	s.Subscribe("a", 2)
	wantPayloads(t, s, 0)
	node.publishRange("a", 5, 7)
	wantPayloads(t, s, 5, 6)
	away.setAway(false)
	wantPayloads(t, s, 1, 2, 3, 4)
}

// TestReplacedAndBackWhileAway is TestReplacedWhileAway with a client that connects to the node that was away, before
// that is compared with the others.
func TestReplacedAndBackWhileAway(t *testing.T) { inVirtualTime(t, testReplacedAndBackWhileAway) }

func testReplacedAndBackWhileAway(t *testing.T) {
	c := newCluster(t, 3)
	second, away := c.nodes[1], c.nodes[2]
	second.Connect(keeps("another")).Subscribe("a", 1)
	away.leaveWithSession("a")
	second.publishRange("a", 0, 4)
	s := second.Connect(keeps("c"))
	s.Subscribe("a", 2)
	second.publishRange("a", 4, 8)
	wantPayloads(t, s, 4, 5, 6, 7)
	s.Close()
	away.setAway(false)
	s = away.Connect(keeps("c"))
	wantPayloads(t, s, 0, 1, 2, 3)
	until(t, "one session is left", func() bool { return len(c.owners("c")) == 1 })
	second.publishRange("a", 8, 10)
	wantPayloads(t, s, 8, 9)
}

// TestLostConnack has a client begin new sessions while the node with its session is away, and never learn of
// them: it is told of no session that it does not know. When the node is back it gets its own one.
func TestLostConnack(t *testing.T) { inVirtualTime(t, testLostConnack) }

func testLostConnack(t *testing.T) {
	c := newCluster(t, 3)
	first, second, away := c.nodes[0], c.nodes[1], c.nodes[2]
	away.leaveWithSession("a")
	for _, n := range []*node{second, second, first, second} {
		s := n.Connect(keeps("c"))
		if s.Present {
			t.Errorf("a session is present at node %d, although the client may not know that it began", n.number)
		}
		s.Close() // as if CONNACK was lost
	}
	first.publishRange("a", 0, 2)
	away.setAway(false)
	until(t, "all nodes respond", c.allReachable)
	until(t, "one session is left", func() bool { return len(c.owners("c")) == 1 })
	s := second.Connect(keeps("c"))
	if !s.Present {
		t.Error("the session that the client knows is not present")
	}
	wantPayloads(t, s, 0, 1)
}

// TestToldSession has a client begin a session while another node is away, and send something: it knows of the
// session, which is present from then on, wherever the client connects.
func TestToldSession(t *testing.T) { inVirtualTime(t, testToldSession) }

func testToldSession(t *testing.T) {
	c := newCluster(t, 3)
	c.nodes[2].setAway(true)
	for i, n := range []*node{c.nodes[1], c.nodes[1], c.nodes[0]} {
		s := n.Connect(keeps("c"))
		if s.Present != (i > 0) {
			t.Errorf("connection %d: a session is present: %t", i, s.Present)
		}
		s.Ping()
		s.Close()
	}
}

// TestMovedWhileStored moves a session away from a node that another node cannot reach, and back. What the other
// node has published meanwhile is sent to the session where it is, and stored for the first node as well: the
// client gets it once.
func TestMovedWhileStored(t *testing.T) { inVirtualTime(t, testMovedWhileStored) }

func testMovedWhileStored(t *testing.T) {
	c := newCluster(t, 3)
	publisher, first, second := c.nodes[0], c.nodes[1], c.nodes[2]
	s := first.Connect(keeps("c"))
	s.Subscribe("a", 2)
	cut := []link{{1, 2}, {2, 1}}
	for _, l := range cut {
		c.block(l, 1)
	}
	<-time.After(20 * time.Second)
	next := 0
	for range 2 {
		s.Close()
		if s = second.Connect(keeps("c")); !s.Present {
			t.Fatal("the session has not moved")
		}
		publisher.publishRange("a", next, next+4)
		wantPayloads(t, s, next, next+1, next+2, next+3)
		next += 4
		s.Close()
		if s = first.Connect(keeps("c")); !s.Present {
			t.Fatal("the session has not moved back")
		}
		publisher.publishRange("a", next, next+2) // stored for the first node only
		for _, l := range cut {
			c.block(l, -1)
		}
		wantPayloads(t, s, next, next+1)
		next += 2
		until(t, "all nodes respond", c.allReachable)
		publisher.publishRange("a", next, next+2)
		wantPayloads(t, s, next, next+1)
		next += 2
		for _, l := range cut {
			c.block(l, 1)
		}
		<-time.After(20 * time.Second)
	}
}
