package sessions_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// beginAnother leaves a session with three messages at the first node, which is isolated then, and
// has its client begin another session at the second one.
func (c *cluster) beginAnother(t *testing.T, h packet.Connect) *enginetest.Client {
	t.Helper()
	here, there := c.nodes[0], c.nodes[1]
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 2)
	s.Close()
	for i := range 3 {
		check(t, here.Publish(&engine.Message{Topic: "a", QoS: byte(i), CreatedAt: time.Now().UnixMilli(), Payload: fmt.Append(nil, "old ", i)}))
	}
	here.setIsolated(true)
	<-time.After(time.Second) // the session is created later than the one before it
	s = there.Connect(h)
	if s.Present {
		t.Fatal("the session is present at a node that cannot reach it")
	}
	return s
}

// wantMessages receives and acknowledges messages, in any order.
func wantMessages(t *testing.T, s *enginetest.Client, want ...string) {
	t.Helper()
	var got []string
	for range want {
		m := s.WantMessage()
		got = append(got, m.Payload)
		if m.QoS == 2 {
			s.Ack(packet.TypePubrec, m.ID)
			s.Want(packet.TypePubrel)
			s.Ack(packet.TypePubcomp, m.ID)
			continue
		}
		s.Ack(packet.TypePuback, m.ID)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if p := s.Ping(); p[0]>>4 != packet.TypePingresp {
		t.Errorf("got one more packet, % x", p)
	}
}

// TestOlderSession has a client begin another session while the node with its session is isolated.
// When that is back, the client gets the messages above QoS 0 of the older session, wherever it is.
func TestOlderSession(t *testing.T) {
	for _, where := range []string{"connected", "away", "connects here", "connects there", "connects at a third node"} {
		t.Run(where, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testOlderSession(t, where) })
		})
	}
}

func testOlderSession(t *testing.T, where string) {
	var discarded atomic.Int64
	c := newCluster(t, 3, shortTimeouts, func(o *sessions.Options) {
		o.Discarded = func(_, messages int) { discarded.Add(int64(messages)) }
	})
	here, there, third := c.nodes[0], c.nodes[1], c.nodes[2]
	s := c.beginAnother(t, keeps("c"))
	s.Subscribe("b", 1)
	check(t, there.Publish(&engine.Message{Topic: "b", QoS: 1, Payload: []byte("new")}))
	wantMessages(t, s, "new")
	if where != "connected" {
		s.Close()
		until(t, "the client is away", func() bool { return slices.Contains(c.owners("c"), 2) })
	}
	if at := map[string]*node{"connects here": here, "connects there": there, "connects at a third node": third}[where]; at == nil {
		here.setIsolated(false)
	} else {
		c.injectFaults(func(request []byte) fault { return fault{before: request[1] == kindPull || isPull(request)} })
		here.setIsolated(false)
		until(t, "all nodes respond", c.allReachable)
		s = at.Connect(keeps("c"))
		c.injectFaults(func([]byte) fault { return fault{} })
	}
	if where == "away" {
		until(t, "the newer session is the only one", func() bool { return slices.Equal(c.owners("c"), []int{2}) })
		s = third.Connect(keeps("c"))
	}
	if where != "connected" && !s.Present {
		t.Error("the newer session is not present")
	}
	wantMessages(t, s, "old 1", "old 2")
	until(t, "the session is at one node", func() bool { return len(c.owners("c")) == 1 })
	check(t, here.Publish(&engine.Message{Topic: "b", QoS: 1, Payload: []byte("newer")}))
	wantMessages(t, s, "newer")
	if n := discarded.Load(); n != 0 {
		t.Errorf("%d messages are reported as discarded", n)
	}
}

// isPull reports whether a request claims a session for a comparison.
func isPull(request []byte) bool {
	return (request[1] == kindClaim || request[1] == kindClaimWill) && request[len(request)-1] == 1
}

// TestOlderSessionIsDiscarded counts the queued messages of a session that ends because its client
// began another one with Clean Start while the node was isolated, and may have returned to that since.
func TestOlderSessionIsDiscarded(t *testing.T) {
	for name, returns := range map[string]bool{"first connection": false, "second connection": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testOlderSessionIsDiscarded(t, returns) })
		})
	}
}

func testOlderSessionIsDiscarded(t *testing.T, returns bool) {
	var discarded atomic.Int64
	c := newCluster(t, 2, shortTimeouts, func(o *sessions.Options) {
		o.Discarded = func(_, messages int) { discarded.Add(int64(messages)) }
	})
	h := keeps("c")
	h.CleanStart = true
	s := c.beginAnother(t, h)
	if returns {
		s.Close()
		if s = c.nodes[1].Connect(keeps("c")); !s.Present {
			t.Fatal("the session is lost")
		}
	}
	c.nodes[0].setIsolated(false)
	until(t, "the newer session is the only one", func() bool { return slices.Equal(c.owners("c"), []int{-2}) })
	until(t, "all nodes respond", c.allReachable)
	synctest.Wait()
	if n := discarded.Load(); n != 2 {
		t.Errorf("%d of 2 discarded messages are counted", n)
	}
	wantMessages(t, s)
}

// TestOlderSessionSharesMessages has a message reach both sessions of a client: at QoS 2 it gets the
// message once.
func TestOlderSessionSharesMessages(t *testing.T) { inVirtualTime(t, testOlderSessionSharesMessages) }

func testOlderSessionSharesMessages(t *testing.T) {
	c := newCluster(t, 3, shortTimeouts)
	s := c.beginAnother(t, keeps("c"))
	s.Subscribe("a", 2)
	c.injectFaults(func(request []byte) fault { return fault{before: isPull(request)} })
	c.nodes[0].setIsolated(false)
	until(t, "all nodes respond", c.allReachable)
	check(t, c.nodes[2].Publish(&engine.Message{Topic: "a", QoS: 2, CreatedAt: time.Now().UnixMilli(), Payload: []byte("both")}))
	wantMessages(t, s, "both")
	c.injectFaults(func([]byte) fault { return fault{} })
	wantMessages(t, s, "old 1", "old 2")
	until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{-2}) })
	wantMessages(t, s)
}

// TestOlderSessionAfterFailedMove has a take-over of the newer of two sessions fail. The node that has a part of
// that now is compared with the node of the older one, although it has not moved that.
func TestOlderSessionAfterFailedMove(t *testing.T) { inVirtualTime(t, testOlderSessionAfterFailedMove) }

func testOlderSessionAfterFailedMove(t *testing.T) {
	c := newCluster(t, 3, shortTimeouts)
	s := c.beginAnother(t, keeps("c"))
	s.Close()
	until(t, "the client is away", func() bool { return slices.Equal(c.owners("c"), []int{1, 2}) })
	c.block(link{1, 2}, 1)
	c.block(link{2, 1}, 1)
	c.nodes[0].setIsolated(false)
	until(t, "nodes 1 and 3 reach each other", func() bool { return c.nodes[2].sessions.Figures().Unreachable == 0 })
	<-time.After(time.Second) // they were compared
	c.injectFaults(func(request []byte) fault { return fault{before: request[1] == kindFetch} })
	if _, err := c.nodes[2].TryConnect(keeps("c")); !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Fatalf("the client was refused with %v", err)
	}
	c.injectFaults(func([]byte) fault { return fault{} })
	until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{3}) })
	wantMessages(t, c.nodes[2].Connect(keeps("c")), "old 1", "old 2")
}
