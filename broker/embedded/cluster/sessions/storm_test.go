package sessions_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// impatient passes nodes over soon.
func impatient(o *sessions.Options) { o.Patience, o.Hold = 100*time.Millisecond, 300*time.Millisecond }

// TestCampaignStorm has one client id connect at all nodes at once, many times over: one
// connection is left, and one session.
func TestCampaignStorm(t *testing.T) {
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
		if got := c.sessions("c"); len(got) != 1 || got[0] > 0 {
			t.Fatalf("round %d: %d connections were let in, the session is at %v", round, len(open), got)
		}
		for _, s := range open {
			s.Close()
		}
		<-left
	}
}

// TestCampaignPartition lets clients in on both sides of a cut, and afterwards leaves the
// one that came last.
func TestCampaignPartition(t *testing.T) {
	t.Parallel()
	c := newClusterOverTCP(t, 3, impatient)
	alone := c.nodes[0]
	first := alone.Connect(keeps("c"))
	alone.Connect(keeps("away")).Close()
	foreign := keeps("foreign")
	alone.Connect(foreign)
	alone.part(true)
	foreign.Username, foreign.HasUsername = "other", true
	for _, h := range []packet.Connect{keeps("c"), keeps("away"), foreign} {
		if c.nodes[1].Connect(h).Present {
			t.Errorf("%s has the session that it cannot have", h.ClientID)
		}
	}
	if got := c.sessions("c"); !slices.Equal(got, []int{-1, -2}) {
		t.Errorf("cut off, the sessions are at %v", got)
	}
	alone.part(false)
	for _, id := range []string{"c", "away", "foreign"} {
		until(t, id+" is at one node", func() bool { return slices.Equal(c.sessions(id), []int{-2}) })
	}
	if p := first.Want(packet.TypeDisconnect); p[2] != packet.ReasonSessionTakenOver {
		t.Errorf("DISCONNECT is % x", p)
	}
	until(t, "all answer", c.answers)
}

// TestCampaignUnite makes two parts of one session one again, whoever finds them.
func TestCampaignUnite(t *testing.T) {
	t.Parallel()
	for _, connected := range []bool{false, true} {
		t.Run(fmt.Sprint("connected ", connected), func(t *testing.T) {
			t.Parallel()
			c := newClusterOverTCP(t, 2, impatient)
			here, there := c.nodes[0], c.nodes[1]
			first := here.Connect(keeps("c"))
			first.Subscribe("a", 1)
			first.Close()
			until(t, "the client has gone", func() bool { return slices.Equal(c.sessions("c"), []int{1}) })
			h, err := here.Holding("c")
			check(t, err)
			for _, n := range c.nodes {
				n.part(true)
			}
			state := &engine.StoredSession{
				SessionRecord: engine.SessionRecord{ClientID: "c", ExpiryInterval: 60, CreatedAt: h.CreatedAt, ConnectedAt: h.CreatedAt + 1e6},
				Subscriptions: []engine.SubscriptionRecord{{Filter: "a", Options: 1}},
			}
			a, err := there.Adopt(state, 1)
			check(t, err)
			a.Settle()
			a.Close()
			for i := range 10 {
				check(t, c.nodes[i%2].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: fmt.Append(nil, i)}))
			}
			for _, n := range c.nodes { // which finds out that the other does not answer
				n.Connect(keeps(fmt.Sprint("other", n.number)))
			}
			var s *enginetest.Client
			if connected {
				s = there.Connect(keeps("c"))
			}
			for _, n := range c.nodes {
				n.part(false)
			}
			if !connected {
				until(t, "they are one", func() bool { return len(c.sessions("c")) == 1 })
				until(t, "all answer", c.answers)
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
			until(t, "the session is at one node", func() bool { return len(c.sessions("c")) == 1 })
		})
	}
}

// TestReconciledMeanwhile lets a client in without a node that answers again, and
// is compared, before the client has its session.
func TestReconciledMeanwhile(t *testing.T) { virtually(t, testReconciledMeanwhile) }

func testReconciledMeanwhile(t *testing.T) {
	c := newCluster(t, 3, func(o *sessions.Options) { o.Patience = time.Second })
	here, there := c.nodes[0], c.nodes[1]
	there.part(true)
	there.Connect(keeps("c")).Close()
	here.Connect(keeps("other")) // and finds out that one node does not answer
	joined := false
	c.spoil(func(request []byte) (f fault) {
		if request[1] == kindClaim && !joined {
			joined, f.delay = true, 500*time.Millisecond
			there.part(false)
		}
		return f
	})
	here.Connect(keeps("c"))
	until(t, "the session is at one node", func() bool { return slices.Equal(c.sessions("c"), []int{-1}) })
}

// TestCampaignHoppingOverCuts cuts nodes off and joins them again while a client hops. The
// session may be lost then, and begun anew, but not without telling; and one is
// left in the end.
func TestCampaignHoppingOverCuts(t *testing.T) {
	t.Parallel()
	c := newClusterOverTCP(t, 3, impatient)
	stop := make(chan struct{})
	var cutting sync.WaitGroup
	cutting.Go(func() {
		dice := rand.New(rand.NewPCG(5, 5))
		for {
			n := c.nodes[dice.IntN(3)]
			n.part(!n.isApart())
			select {
			case <-time.After(time.Duration(dice.IntN(60)) * time.Millisecond):
			case <-stop:
				return
			}
		}
	})
	h := newHopper(c, 5)
	acknowledged := h.run(50)
	close(stop)
	cutting.Wait()
	for _, n := range c.nodes {
		n.part(false)
	}
	h.settled()
	t.Logf("%d hops, %d messages, %d new sessions, %d missing; node 1: %+v",
		h.hops, len(acknowledged), h.anew, h.missing(acknowledged), c.nodes[0].claims.Figures())
	if h.anew == 1 && h.missing(acknowledged) > 0 {
		t.Errorf("%d of %d messages are missing", h.missing(acknowledged), len(acknowledged))
	}
}
