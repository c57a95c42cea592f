package sessions_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// shortTimeouts makes nodes unreachable soon.
func shortTimeouts(o *sessions.Options) {
	o.RequestTimeout, o.HandoffTimeout = 100*time.Millisecond, 300*time.Millisecond
}

// TestCampaignConcurrentConnects connects one client id at all nodes at once, many times: one
// connection and one session are left.
func TestCampaignConcurrentConnects(t *testing.T) {
	t.Parallel()
	c := newClusterOverTCP(t, 3)
	for round := range 15 {
		var mu sync.Mutex
		var open []*enginetest.Client
		var dialing sync.WaitGroup
		for i := range 12 {
			dialing.Go(func() {
				h := keeps("c")
				h.CleanStart = (round+i)%4 == 0
				if s, err := c.nodes[i%3].TryConnect(h); err == nil {
					mu.Lock()
					open = append(open, s)
					mu.Unlock()
				}
			})
		}
		dialing.Wait()
		left := make(chan *enginetest.Client, len(open))
		for _, s := range open {
			check(t, s.SetReadDeadline(time.Time{}))
			go func() {
				for {
					if _, err := s.Next(); err != nil {
						left <- nil
						return
					}
				}
			}()
		}
		for range len(open) - 1 {
			<-left
		}
		if got := c.owners("c"); len(got) != 1 || got[0] > 0 {
			t.Fatalf("round %d: %d connections were let in, the session is at %v", round, len(open), got)
		}
		for _, s := range open {
			s.Close()
		}
		<-left
	}
}

// TestCampaignPartition lets clients in on both sides of a partition, and afterwards leaves
// the latest.
func TestCampaignPartition(t *testing.T) {
	t.Parallel()
	c := newClusterOverTCP(t, 3, shortTimeouts)
	alone := c.nodes[0]
	first := alone.Connect(keeps("c"))
	alone.Connect(keeps("away")).Close()
	foreign := keeps("foreign")
	alone.Connect(foreign)
	alone.setIsolated(true)
	foreign.Username, foreign.HasUsername = "other", true
	for _, h := range []packet.Connect{keeps("c"), keeps("away"), foreign} {
		if c.nodes[1].Connect(h).Present {
			t.Errorf("the session of %s is present at a node that cannot reach it", h.ClientID)
		}
	}
	if got := c.owners("c"); !slices.Equal(got, []int{-1, -2}) {
		t.Errorf("cut off, the sessions are at %v", got)
	}
	alone.setIsolated(false)
	for _, id := range []string{"c", "away", "foreign"} {
		until(t, id+" is at one node", func() bool { return slices.Equal(c.owners(id), []int{-2}) })
	}
	if p := first.Want(packet.TypeDisconnect); p[2] != packet.ReasonSessionTakenOver {
		t.Errorf("DISCONNECT is % x", p)
	}
	until(t, "all nodes respond", c.allReachable)
}

// TestCampaignMerge merges two parts of one session, whichever node finds them.
func TestCampaignMerge(t *testing.T) {
	t.Parallel()
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprint("connected ", connected), func(t *testing.T) {
			t.Parallel()
			c := newClusterOverTCP(t, 2, shortTimeouts)
			here, there := c.nodes[0], c.nodes[1]
			first := here.Connect(keeps("c"))
			first.Subscribe("a", 1)
			first.Close()
			until(t, "the client is disconnected", func() bool { return slices.Equal(c.owners("c"), []int{1}) })
			h, err := here.Ownership("c")
			check(t, err)
			for _, n := range c.nodes {
				n.setIsolated(true)
			}
			state := &engine.StoredSession{
				SessionRecord: engine.SessionRecord{ClientID: "c", ExpiryInterval: 60, CreatedAt: h.CreatedAt, ConnectedAt: h.CreatedAt + 1e6},
				Subscriptions: []engine.SubscriptionRecord{{Filter: "a", Options: 1}},
			}
			a, err := there.Adopt(state, 1, h.Timestamp+1e9)
			check(t, err)
			a.Activate()
			a.Close()
			for i := range 10 {
				check(t, c.nodes[i%2].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: fmt.Append(nil, i)}))
			}
			for _, n := range c.nodes { // so that the node finds the other one unreachable
				n.Connect(keeps(fmt.Sprint("other", n.number)))
			}
			var s *enginetest.Client
			if connected {
				s = there.Connect(keeps("c"))
			}
			for _, n := range c.nodes {
				n.setIsolated(false)
			}
			if !connected {
				until(t, "the parts are merged", func() bool { return len(c.owners("c")) == 1 })
				until(t, "all nodes respond", c.allReachable)
				s = here.Connect(keeps("c"))
			}
			var got []string
			for range 10 {
				m := s.WantMessage()
				got = append(got, m.Payload)
				s.Ack(packet.TypePuback, m.ID)
			}
			slices.Sort(got)
			if want := "[0 1 2 3 4 5 6 7 8 9]"; fmt.Sprint(got) != want {
				t.Errorf("got %v", got)
			}
			until(t, "the session is at one node", func() bool { return len(c.owners("c")) == 1 })
		})
	}
}

// divide leaves parts of the client's session at both nodes, of which the first is isolated
// then. It returns the client's connection to the second.
func (c *cluster) divide(t *testing.T) *enginetest.Client {
	t.Helper()
	there := c.nodes[1]
	c.injectFaults(func(request []byte) fault { return fault{before: request[1] == kindFetch} })
	if _, err := there.TryConnect(keeps("c")); !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Fatalf("the client was refused with %v", err)
	}
	c.nodes[0].setIsolated(true)
	s := there.Connect(keeps("c"))
	if !s.Present {
		t.Fatal("the part that was imported is not present")
	}
	return s
}

// TestPacketIDsOfMergedParts merges a part of a session with one at which the client was connected
// earlier, wherever that is: a packet identifier that it has released since is free [MQTT-4.3.3-12].
func TestPacketIDsOfMergedParts(t *testing.T) {
	t.Parallel()
	for connect := 1; connect <= 2; connect++ {
		t.Run(fmt.Sprint("node ", connect), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testPacketIDsOfMergedParts(t, connect) })
		})
	}
}

func testPacketIDsOfMergedParts(t *testing.T, connect int) {
	c := newCluster(t, 2, shortTimeouts)
	here := c.nodes[0]
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 1)
	s.Publish(packet.Outgoing{Topic: "b", QoS: 2, PacketID: 7})
	s.Want(packet.TypePubrec)
	s.Close()
	s = c.divide(t)
	s.Ack(packet.TypePubrel, 7)
	s.Want(packet.TypePubcomp)
	s.Close()
	until(t, "the client is disconnected", func() bool { return slices.Equal(c.owners("c"), []int{1, 2}) })
	if connect == 2 {
		c.injectFaults(func([]byte) fault { return fault{} })
		here.setIsolated(false)
		until(t, "the parts are merged", func() bool { return slices.Equal(c.owners("c"), []int{2}) })
	} else { // the previous node finds them
		c.injectFaults(func(request []byte) fault { return fault{before: request[1] == kindList} })
		here.setIsolated(false)
	}
	s = c.nodes[connect-1].Connect(keeps("c"))
	s.Publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 7, Payload: []byte("another")})
	s.Want(packet.TypePubrec)
	if m := s.WantMessage(); m.Payload != "another" {
		t.Errorf("got %v", m)
	}
}

// TestMergeInFlight merges a part whose messages are in flight with one at which the client is
// connected: it has to reconnect, since they are repeated after CONNACK only [MQTT-4.4.0-1].
func TestMergeInFlight(t *testing.T) { inVirtualTime(t, testMergeInFlight) }

func testMergeInFlight(t *testing.T) {
	c := newCluster(t, 2, shortTimeouts)
	here, there := c.nodes[0], c.nodes[1]
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 2)
	for i := range 2 {
		check(t, here.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: fmt.Append(nil, i)}))
	}
	released, sent := s.WantMessage(), s.WantMessage()
	s.Ack(packet.TypePubrec, released.ID)
	s.Want(packet.TypePubrel)
	s.Close()
	s = c.divide(t)
	c.injectFaults(func([]byte) fault { return fault{} })
	here.setIsolated(false)
	s.AwaitClose()
	s = there.Connect(keeps("c"))
	if p := s.Want(packet.TypePubrel); enginetest.PacketID(p) != released.ID {
		t.Errorf("PUBREL has the id %d, want %d", enginetest.PacketID(p), released.ID)
	}
	sent.Dup = true
	if m := s.WantMessage(); m != sent {
		t.Errorf("got %v, want %v", m, sent)
	}
	until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{-2}) })
}

// TestReconciledDuringClaim lets a client in without a node that responds again and is
// reconciled before the client has its session.
func TestReconciledDuringClaim(t *testing.T) { inVirtualTime(t, testReconciledDuringClaim) }

func testReconciledDuringClaim(t *testing.T) {
	c := newCluster(t, 3, func(o *sessions.Options) { o.RequestTimeout = time.Second })
	here, there := c.nodes[0], c.nodes[1]
	there.setIsolated(true)
	there.Connect(keeps("c")).Close()
	here.Connect(keeps("other")) // so that the node finds the other one unreachable
	joined := false
	c.injectFaults(func(request []byte) (f fault) {
		if request[1] == kindClaim && !joined {
			joined, f.delay = true, 500*time.Millisecond
			there.setIsolated(false)
		}
		return f
	})
	here.Connect(keeps("c"))
	until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{-1}) })
}

// TestCampaignRoamingOverPartitions isolates and reconnects nodes while a client roams. The
// session may be lost, but the client is told so, and one session is left in the end.
func TestCampaignRoamingOverPartitions(t *testing.T) {
	t.Parallel()
	c := newClusterOverTCP(t, 3, shortTimeouts)
	stop := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		random := rand.New(rand.NewPCG(5, 5))
		for {
			n := c.nodes[random.IntN(3)]
			n.setIsolated(!n.isIsolated())
			select {
			case <-time.After(time.Duration(random.IntN(60)) * time.Millisecond):
			case <-stop:
				return
			}
		}
	})
	h := newRoamingClient(c, 5)
	acknowledged := h.run(50)
	close(stop)
	cutting.Wait()
	for _, n := range c.nodes {
		n.setIsolated(false)
	}
	until(t, "all nodes respond", c.allReachable)
	for !h.connect(0, 0) { // all its sessions may have ended: it has alternated between them
	}
	h.waitForOneNode()
	t.Logf("%d connections, %d messages, %d new sessions, %d missing; node 1: %+v",
		h.connections, len(acknowledged), h.newSessions, h.missing(acknowledged), c.nodes[0].sessions.Figures())
	if h.newSessions == 1 && h.missing(acknowledged) > 0 {
		t.Errorf("%d of %d messages are missing", h.missing(acknowledged), len(acknowledged))
	}
}

// TestAlternatingSessions has a client at one node, at another one that cannot reach it, and
// at each of them once more: of neither session it has the state. It is told so as soon as the
// nodes reach each other, wherever it connects next.
func TestAlternatingSessions(t *testing.T) {
	for name, connected := range map[string]bool{"connected": true, "disconnected": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testAlternatingSessions(t, connected) })
		})
	}
}

func testAlternatingSessions(t *testing.T, connected bool) {
	var discarded atomic.Int64
	c := newCluster(t, 3, func(o *sessions.Options) {
		o.RequestTimeout = time.Second
		o.Discarded = func(_, messages int) { discarded.Add(int64(messages)) }
	})
	here, there, third := c.nodes[0], c.nodes[1], c.nodes[2]
	connect := func(at, unreachable *node, present bool) *enginetest.Client {
		t.Helper()
		at.setIsolated(false)
		unreachable.setIsolated(true)
		<-time.After(time.Second) // a session is created later than the connection before it
		s := at.Connect(keeps("c"))
		if s.Present != present {
			t.Fatalf("at node %d: session present is %t, want %t", at.number, s.Present, present)
		}
		s.Ping() // it knows of the session
		return s
	}
	connect(here, there, false).Close()
	connect(there, here, false).Close()
	connect(here, there, true).Close()
	s := connect(there, here, true)
	s.Subscribe("a", 2)
	check(t, there.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("lost")}))
	s.WantMessage()
	if connected { // the nodes compare their sessions
		here.setIsolated(false)
		until(t, "the sessions have ended", func() bool { return len(c.owners("c")) == 0 })
		s.AwaitClose()
	} else { // the node at which it connects gets an offer of each session
		s.Close()
		c.injectFaults(func(request []byte) fault {
			return fault{before: isPull(request)}
		})
		here.setIsolated(false)
		until(t, "all nodes respond", c.allReachable)
		if got := c.owners("c"); !slices.Equal(got, []int{1, 2}) {
			t.Fatalf("before the next connection the sessions are at %v", got)
		}
	}
	if third.Connect(keeps("c")).Present {
		t.Error("the client is told that its session is present")
	}
	until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{-3}) })
	if got := discarded.Load(); got != 1 {
		t.Errorf("%d messages were reported as discarded, want 1", got)
	}
}
