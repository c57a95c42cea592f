package sessions_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// TestDrain moves the sessions of a node to the others, with what is queued, and leaves those of
// connected clients.
func TestDrain(t *testing.T) { inVirtualTime(t, testDrain) }

func testDrain(t *testing.T) {
	const sessions = 40
	c := newCluster(t, 3)
	stops := c.nodes[0]
	for i := range sessions {
		s := stops.Connect(keeps(fmt.Sprintf("c%02d", i)))
		s.Subscribe("a/#", 2)
		s.Disconnect()
	}
	stays := stops.Connect(keeps("stays"))
	for i, n := range c.nodes {
		check(t, n.Publish(&engine.Message{Topic: fmt.Sprint("a/", i), QoS: byte(1 + i%2), Payload: fmt.Append(nil, i)}))
	}
	moved, left := stops.sessions.Drain(t.Context())
	if moved != sessions || left != 0 {
		t.Errorf("%d sessions moved, and %d are left", moved, left)
	}
	at := map[int]int{}
	for i := range sessions {
		owners := c.owners(fmt.Sprintf("c%02d", i))
		if len(owners) != 1 {
			t.Fatalf("session %d is at %v", i, owners)
		}
		at[owners[0]]++
	}
	if at[1] != 0 || at[2] == 0 || at[3] == 0 {
		t.Errorf("the sessions are at %v", at)
	}
	if got := c.owners("stays"); !slices.Equal(got, []int{-1}) {
		t.Errorf("that of the connected client is at %v", got)
	}
	stays.Subscribe("b", 0) // still served
	check(t, c.nodes[1].Publish(&engine.Message{Topic: "a/3", QoS: 1, Payload: []byte("3")}))
	for i := range sessions {
		s := c.nodes[1+i%2].Connect(keeps(fmt.Sprintf("c%02d", i)))
		if !s.Present {
			t.Fatalf("session %d is lost", i)
		}
		var got []string
		for range 4 {
			got = append(got, s.WantMessage().Payload)
		}
		if slices.Sort(got); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
			t.Errorf("session %d has %v", i, got)
		}
		if p := s.Ping(); p[0]>>4 != packet.TypePingresp {
			t.Errorf("session %d has more: % x", i, p)
		}
	}
}

// TestDrainWhileClientsReturn has clients connect to other nodes while their sessions move:
// each gets its session, with all messages.
func TestDrainWhileClientsReturn(t *testing.T) {
	t.Parallel()
	const sessions = 60
	c := newClusterOverTCP(t, 3)
	stops := c.nodes[0]
	for i := range sessions {
		s := stops.Connect(keeps(fmt.Sprintf("c%02d", i)))
		s.Subscribe("a", 1)
	}
	check(t, stops.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("x")}))
	stops.Redirect(t.Context())
	drained := make(chan int)
	go func() {
		_, left := stops.sessions.Drain(context.WithoutCancel(t.Context()))
		drained <- left
	}()
	for i := range sessions {
		s := c.nodes[1+i%2].Connect(keeps(fmt.Sprintf("c%02d", i)))
		if m := s.WantMessage(); !s.Present || m.Payload != "x" {
			t.Errorf("client %d: %v", i, m)
		}
	}
	if left := <-drained; left != 0 {
		t.Errorf("%d sessions are left", left)
	}
	for i := range sessions {
		if got := c.owners(fmt.Sprintf("c%02d", i)); len(got) != 1 || got[0] == 1 {
			t.Errorf("session %d is at %v", i, got)
		}
	}
}

// TestDrainWithoutTakers leaves the sessions where they are if the other nodes do not respond,
// or do not know the request, as those of older releases.
func TestDrainWithoutTakers(t *testing.T) { inVirtualTime(t, testDrainWithoutTakers) }

func testDrainWithoutTakers(t *testing.T) {
	c := newCluster(t, 2, shortTimeouts)
	stops := c.nodes[0]
	const sessions = 30
	for i := range sessions {
		stops.Connect(keeps(fmt.Sprintf("c%02d", i))).Disconnect()
	}
	asked := 0
	c.injectFaults(func(request []byte) fault {
		if request[1] == kindReceive {
			asked++
		}
		return fault{before: request[1] == kindReceive}
	})
	if moved, left := stops.sessions.Drain(t.Context()); moved != 0 || left != sessions || asked >= sessions {
		t.Errorf("after %d requests %d moved, and %d are left", asked, moved, left)
	}
	c.injectFaults(func([]byte) fault { return fault{} })
	if moved, left := stops.sessions.Drain(t.Context()); moved != sessions || left != 0 {
		t.Errorf("then %d moved, and %d are left", moved, left)
	}
}

// TestStop lets clients connect to the other nodes at once after a node has announced that it stops,
// also those that connect at that moment.
func TestStop(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		c := newCluster(t, 3)
		began := time.Now()
		c.nodes[0].sessions.Stop(t.Context())
		c.nodes[0].setIsolated(true)
		for i, n := range c.nodes[1:] {
			n.Connect(keeps(fmt.Sprint("c", i)))
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the clients waited %v", took)
		}
	})
}

// TestDrainTogether stops all nodes at the same time: none moves sessions to another one that
// stops as well, and each session is at one node.
func TestDrainTogether(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const sessions = 60
		c := newCluster(t, 3)
		for i := range sessions {
			c.nodes[i%3].Connect(keeps(fmt.Sprintf("c%02d", i))).Disconnect()
		}
		began := time.Now()
		var stopping sync.WaitGroup
		for _, n := range c.nodes {
			stopping.Go(func() { n.sessions.Drain(t.Context()) })
		}
		stopping.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("that took %v", took)
		}
		for i := range sessions {
			if got := c.owners(fmt.Sprintf("c%02d", i)); len(got) != 1 {
				t.Errorf("session %d is at %v", i, got)
			}
		}
	})
}

// TestDrainOlderSession moves a session to a node while its client has begun another one at a third node,
// which the node that stops cannot reach: only one of them stays.
func TestDrainOlderSession(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		c := newCluster(t, 3, shortTimeouts)
		stops, there := c.nodes[0], c.nodes[1]
		s := stops.Connect(keeps("c"))
		s.Subscribe("a", 1)
		s.Disconnect()
		check(t, stops.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("waits")}))
		c.block(link{1, 2}, 1)
		c.block(link{2, 1}, 1)
		<-time.After(time.Second) // the sessions have different creation times, and nodes 2 and 3 were compared
		s = there.Connect(keeps("c"))
		if s.Present {
			t.Fatal("the session is present at a node that cannot reach it")
		}
		stops.Connect(enginetest.Clean("other")) // so that the node finds the other one unreachable
		if moved, left := stops.sessions.Drain(t.Context()); moved != 1 || left != 0 {
			t.Errorf("%d sessions moved, and %d are left", moved, left)
		}
		stops.sessions.Stop(t.Context())
		stops.setDown(true)
		until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{-2}) })
		wantMessages(t, s, "waits")
	})
}
