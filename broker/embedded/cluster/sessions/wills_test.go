package sessions_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

const willDelay = 20 * time.Second

// withWill has a client with a delayed Will connect to a node and lose its connection, and returns the
// time of that.
func (n *node) withWill(t *testing.T, id string) time.Time {
	t.Helper()
	h := keeps(id)
	h.Will = &packet.Will{Topic: "wills/" + id, Payload: []byte("gone"), QoS: 1, Delay: uint32(willDelay / time.Second)}
	n.Connect(h).Close()
	until(t, "the client is away", func() bool { o, err := n.Ownership(id); return err == nil && o.HasWill && !o.Connected })
	return time.Now()
}

// willsOf subscribes to the Wills at a node.
func (n *node) willsOf() *enginetest.Client {
	s := n.Connect(keeps("watcher"))
	s.Subscribe("wills/#", 1)
	return s
}

// TestWillMoves moves a session with its Will: the node that has it publishes it when it is due, and
// not if the client is back.
func TestWillMoves(t *testing.T) {
	for name, returns := range map[string]int{"away": 0, "back where its session is": 2, "back at the drained node": 1, "back at the third node": 3} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, func(t *testing.T) { testWillMoves(t, returns) }) })
	}
}

func testWillMoves(t *testing.T, returns int) {
	c := newCluster(t, 3)
	drained, watcher := c.nodes[0], c.nodes[2].willsOf()
	c.nodes[2].sessions.Drain(t.Context()) // which takes no sessions over from now on
	gone := drained.withWill(t, "c")
	if moved, left := drained.sessions.Drain(t.Context()); moved != 1 || left != 0 {
		t.Fatalf("%d sessions moved, and %d are left", moved, left)
	}
	if got := c.owners("c"); !slices.Equal(got, []int{2}) {
		t.Fatalf("the session is at %v", got)
	}
	if returns > 0 {
		<-time.After(willDelay / 2)
		back := c.nodes[returns-1].Connect(keeps("c"))
		if !back.Present {
			t.Error("the session does not exist")
		}
		<-time.After(2 * willDelay)
		if p := watcher.Ping(); p[0]>>4 != packet.TypePingresp {
			t.Errorf("the Will of a client that is back was published: % x", p)
		}
		return
	}
	if m := watcher.WantMessage(); m.Topic != "wills/c" || m.Payload != "gone" {
		t.Errorf("got %+v", m)
	}
	if after := time.Since(gone); after < willDelay-10*time.Millisecond || after > willDelay+time.Second {
		t.Errorf("the Will was published after %v", after)
	}
	<-time.After(willDelay)
	if p := watcher.Ping(); p[0]>>4 != packet.TypePingresp {
		t.Errorf("more was published: % x", p)
	}
}

// TestWillStays leaves sessions with a Will at the node if the others are of an older release, and
// moves those without one.
func TestWillStays(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		c := newCluster(t, 3, shortTimeouts)
		c.injectFaults(func(request []byte) fault {
			return fault{unknown: request[1] == kindClaimWill || request[1] == kindReceiveWill}
		})
		drained, watcher := c.nodes[0], c.nodes[2].willsOf()
		const each = 60
		for i := range each {
			drained.Connect(keeps(fmt.Sprint("without ", i))).Disconnect()
			drained.withWill(t, fmt.Sprint("with ", i))
		}
		if moved, left := drained.sessions.Drain(t.Context()); moved != each || left != each {
			t.Errorf("%d sessions moved, and %d are left", moved, left)
		}
		got := map[string]bool{}
		for range each {
			m := watcher.WantMessage()
			got[m.Topic] = true
			watcher.Ack(packet.TypePuback, m.ID)
		}
		if len(got) != each {
			t.Errorf("%d Wills were published", len(got))
		}
	})
}

// TestWillMovesWithFaults loses one request or response after the other while a session moves: it is
// at one node then, and its Will is published once.
func TestWillMovesWithFaults(t *testing.T) {
	const requests = 24
	for n := range requests {
		for _, after := range []bool{false, true} {
			inVirtualTime := func(t *testing.T) { testWillMovesWithFaults(t, n, after) }
			t.Run(fmt.Sprint(n, after), func(t *testing.T) { t.Parallel(); synctest.Test(t, inVirtualTime) })
		}
	}
}

func testWillMovesWithFaults(t *testing.T, lost int, after bool) {
	c := newCluster(t, 3, shortTimeouts, func(o *sessions.Options) { o.ProbeInterval = time.Second })
	drained, watcher := c.nodes[0], c.nodes[2].willsOf()
	drained.withWill(t, "c")
	count := -1
	c.injectFaults(func(request []byte) (f fault) {
		if request[1] != kindList {
			count++
		}
		if count >= lost && count < lost+4 { // so that a repeated request is lost, too
			f.before, f.after = !after, after
		}
		return f
	})
	drained.sessions.Drain(t.Context())
	c.injectFaults(func([]byte) fault { return fault{} })
	until(t, "the session is at one node", func() bool { return len(c.owners("c")) == 1 })
	if m := watcher.WantMessage(); m.Topic != "wills/c" {
		t.Errorf("got %+v", m)
	}
	<-time.After(2 * willDelay)
	if p := watcher.Ping(); p[0]>>4 != packet.TypePingresp {
		t.Errorf("more was published: % x", p)
	}
}
