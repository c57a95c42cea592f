package mesh_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// TestLinksBreak breaks links continuously while messages are sent. Above QoS 0 no message is
// lost, duplicated or out of order.
func TestLinksBreak(t *testing.T) {
	t.Parallel()
	const messages = 400
	f, n := startNodes(t, 3, overTCP)
	var wg, breaking sync.WaitGroup
	over := make(chan struct{})
	for i := range n {
		reader := n[i].connect(fmt.Sprint("reader", i), i != 1)
		reader.Subscribe("load/#", 2)
		wg.Go(func() {
			next := map[string]int{}
			for range (len(n)) * messages {
				m := reader.next()
				if want := fmt.Sprint(next[m.topic]); m.payload != want {
					t.Errorf("reader %d got message %s of %s, want %s", i, m.payload, m.topic, want)
					return
				}
				next[m.topic]++
			}
			reader.expectNoMessages()
		})
	}
	for _, one := range n {
		for _, other := range n {
			until(t, "all nodes know the subscriptions", func() bool { return one == other || one.figures(other.id).Routes == 1 })
		}
	}
	for i := range n {
		wg.Go(func() {
			c := n[i].connect(fmt.Sprint("c", i), true)
			for k := range messages {
				if code := c.publish(packet.Outgoing{
					Topic: fmt.Sprint("load/", i), Payload: fmt.Append(nil, k), QoS: byte(k%2 + 1), PacketID: uint16(k%100 + 1),
				}); code != 0 {
					t.Errorf("message %d of %d: code %d", k, i, code)
				}
			}
		})
	}
	breaking.Go(func() {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			from, to := random.IntN(3)+1, random.IntN(3)+1
			f.disconnect(from, to, random.IntN(3) == 0)
			select {
			case <-tick.C:
				f.reconnect(from, to)
			case <-over:
				f.reconnect(from, to)
				return
			}
		}
	})
	wg.Wait()
	close(over)
	breaking.Wait()
	for _, one := range n {
		for _, f := range one.mesh.Figures() {
			if f.Abandoned+f.Refused > 0 {
				t.Errorf("%+v", f)
			}
		}
	}
}

// TestUnreachableNode lets a publisher wait for an unreachable node until the grace period is
// over, and stores messages from then on until the node is back.
func TestUnreachableNode(t *testing.T) { inVirtualTime(t, testUnreachableNode) }

func testUnreachableNode(t *testing.T) {
	f, n := startNodes(t, 2, func(f *network) { f.grace = 500 * time.Millisecond })
	reader, c := n[0].connect("reader", true), n[1].connect("c", false)
	reader.Subscribe("a", 1)
	f.disconnect(2, 1, true)
	if code := c.publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}); code != 0 {
		t.Errorf("got code %d", code)
	}
	synctest.Wait()
	if g := n[1].figures(1); g.Linked || g.Abandoned != 0 || g.Stored != 1 {
		t.Errorf("got %+v", g)
	}
	if code := c.publish(packet.Outgoing{Topic: "a", Payload: []byte("gone"), QoS: 1, PacketID: 1}); code != 0 {
		t.Errorf("got code %d for a message to an unreachable node", code)
	}
	f.reconnect(2, 1)
	n[1].waitLinked(1)
	c.publish(packet.Outgoing{Topic: "a", Payload: []byte("back"), QoS: 1, PacketID: 1})
	for _, payload := range []string{"", "gone", "back"} {
		if m := reader.next(); m.payload != payload {
			t.Errorf("got %v, want %q", m, payload)
		}
	}
	until(t, "nothing is stored any more", func() bool { return n[1].figures(1).Stored == 0 })
	f.disconnect(1, 2, true) // its routes are not updated, but it can be reached
	c.publish(packet.Outgoing{Topic: "a", Payload: []byte("still"), QoS: 1, PacketID: 1})
	if m := reader.next(); m.payload != "still" || n[1].figures(1).Routes != 1 {
		t.Errorf("got %v, with %d routes", m, n[1].figures(1).Routes)
	}
}

// TestRestart restarts a node while messages wait for it: they reach its persistent session.
func TestRestart(t *testing.T) { inVirtualTime(t, testRestart) }

func testRestart(t *testing.T) {
	f, n := startNodes(t, 2)
	reader := n[0].connect("reader", true)
	reader.Subscribe("a", 1)
	c := n[1].connect("c", false)
	f.unregister(1)
	n[0].close()
	until(t, "the link is down", func() bool { return !n[1].figures(1).Linked })
	c.Send(packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "a", Payload: []byte("waits"), QoS: 1, PacketID: 1}))
	c.expectNothing()
	back := f.start(1, n[0].dir)
	back.mesh.SetPeers(f.ids())
	if code := c.WantAck(packet.TypePuback).Reason; code != 0 {
		t.Errorf("got code %d", code)
	}
	reader = back.connect("reader", true)
	if m := reader.next(); m.payload != "waits" {
		t.Errorf("got %v", m)
	}
}

// TestSimultaneousStart restarts all nodes, one a little later. The first one knows the
// subscriptions at the second before it is ready.
func TestSimultaneousStart(t *testing.T) { inVirtualTime(t, testSimultaneousStart) }

func testSimultaneousStart(t *testing.T) {
	f, n := startNodes(t, 2)
	n[1].connect("reader", true).Subscribe("a", 1)
	f.unregister(1)
	f.unregister(2)
	n[0].close()
	n[1].close()
	first := f.start(1, n[0].dir)
	first.mesh.SetPeers([]int{1, 2})
	routes := make(chan int)
	go func() {
		first.mesh.WaitForRoutes(t.Context())
		routes <- first.figures(2).Routes
	}()
	second := f.start(2, n[1].dir)
	second.mesh.SetPeers([]int{1, 2})
	if got := <-routes; got != 1 {
		t.Errorf("ready with %d routes, want 1", got)
	}
}

// TestAbsentNode does not wait long for a node that is not running.
func TestAbsentNode(t *testing.T) { inVirtualTime(t, testAbsentNode) }

func testAbsentNode(t *testing.T) {
	f := &network{t: t, nodes: map[int]*node{}, conns: map[[2]int][]*mutedConn{}, cut: map[[2]int]bool{}}
	n := f.start(1, t.TempDir())
	n.mesh.SetPeers([]int{1, 2})
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	n.mesh.WaitForRoutes(ctx)
	if ctx.Err() != nil {
		t.Error("WaitForRoutes does not return")
	}
}

// TestRemoved lets no publisher wait for a node that was removed from the cluster.
func TestRemoved(t *testing.T) { inVirtualTime(t, testRemoved) }

func testRemoved(t *testing.T) {
	f, n := startNodes(t, 2)
	n[0].connect("reader", true).Subscribe("a", 1)
	c := n[1].connect("c", false)
	f.disconnect(2, 1, true)
	until(t, "the link is down", func() bool { return !n[1].figures(1).Linked })
	c.Send(packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}))
	c.expectNothing()
	n[1].mesh.SetPeers([]int{2})
	if code := c.WantAck(packet.TypePuback).Reason; code != 0 {
		t.Errorf("got code %d", code)
	}
	n[1].mesh.SetPeers(f.ids())
	f.reconnect(2, 1)
	n[1].waitLinked(1)
	n[0].waitLinked(1)
}

// TestClosedWhileWaiting refuses messages that are not confirmed when their node closes.
func TestClosedWhileWaiting(t *testing.T) { inVirtualTime(t, testClosedWhileWaiting) }

func testClosedWhileWaiting(t *testing.T) {
	f, n := startNodes(t, 2)
	n[0].connect("reader", true).Subscribe("a", 1)
	c := n[1].connect("c", false)
	f.disconnect(2, 1, true)
	until(t, "the link is down", func() bool { return !n[1].figures(1).Linked })
	c.Send(packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}))
	c.expectNothing()
	n[1].mesh.Close()
	if code := c.WantAck(packet.TypePuback).Reason; code != packet.ReasonQuotaExceeded {
		t.Errorf("got code %d", code)
	}
}

// TestSilentNode replaces a connection whose node sends nothing.
func TestSilentNode(t *testing.T) { inVirtualTime(t, testSilentNode) }

func testSilentNode(t *testing.T) {
	f, n := startNodes(t, 2)
	f.mute(2, 1)
	until(t, "another connection is made", func() bool { return f.connections(2, 1) > 0 })
	n[1].waitLinked(1)
}

// mutedConn is a connection that discards all data once mute is closed.
type mutedConn struct {
	net.Conn
	mute chan struct{}
}

func (m *mutedConn) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	select {
	case <-m.mute:
		if err == nil { // discard it
			return m.Read(p)
		}
	default:
	}
	return n, err
}

func (m *mutedConn) Write(p []byte) (int, error) {
	select {
	case <-m.mute:
		return len(p), nil
	default:
		return m.Conn.Write(p)
	}
}

// TestManyRoutes sends a table of many frames, changes to it, and the changes missed while the
// link was down.
func TestManyRoutes(t *testing.T) { inVirtualTime(t, testManyRoutes) }

func testManyRoutes(t *testing.T) {
	const filters, each = 9_000, 500
	f, n := startNodes(t, 2)
	c := n[0].connect("c", false)
	f.disconnect(1, 2, true)
	subscribe := func(form string) {
		for i := 0; i < filters; i += each {
			s := &packet.Subscribe{PacketID: 1}
			for k := range each {
				s.Filters = append(s.Filters, packet.Filter{Filter: fmt.Sprintf(form, i+k)})
			}
			c.Send(packet.AppendSubscribe(nil, packet.V5, s))
			c.Want(packet.TypeSuback)
		}
	}
	subscribe("site/%d/+/state")
	f.reconnect(1, 2)
	until(t, "all routes are known", func() bool { return n[1].figures(1).Routes == filters })
	for i := 0; i < filters; i += each {
		u := &packet.Unsubscribe{PacketID: 1}
		for k := range each - 1 {
			u.Filters = append(u.Filters, fmt.Sprintf("site/%d/+/state", i+k))
		}
		if i == filters/2 {
			f.disconnect(1, 2, false)
		}
		c.Send(packet.AppendUnsubscribe(nil, packet.V5, u))
		c.Want(packet.TypeUnsuback)
	}
	until(t, "the remaining routes are known", func() bool { return n[1].figures(1).Routes == filters/each })
	c.Close()
	until(t, "no route is left", func() bool { return n[1].figures(1).Routes == 0 })
}
