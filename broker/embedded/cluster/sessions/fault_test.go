package sessions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// TestMovedSession compares a session with what it was before it moved, and lets it expire at
// the new node.
func TestMovedSession(t *testing.T) { inVirtualTime(t, testMovedSession) }

func testMovedSession(t *testing.T) {
	c := newCluster(t, 2)
	here, there := c.nodes[0], c.nodes[1]
	h := keeps("c")
	h.Username, h.HasUsername, h.SessionExpiry = "u", true, 1
	s := here.Connect(h)
	filters := []packet.Filter{{Filter: "a/+", Options: 2 | 4 | 8 | 1<<4}, {Filter: "$share/g/b", Options: 1}}
	s.Send(packet.AppendSubscribe(nil, packet.V5, &packet.Subscribe{PacketID: 1, ID: 77, Filters: filters}))
	s.Want(packet.TypeSuback)
	before, subscribed, err := here.Client("c")
	check(t, err)

	s = there.Connect(h)
	after, now, err := there.Client("c")
	check(t, err)
	want := []engine.Subscription{
		{Filter: "$share/g/b", ClientID: "c", Username: "u", Options: topics.Options{QoS: 1, ID: 77}},
		{Filter: "a/+", ClientID: "c", Username: "u", Options: topics.Options{QoS: 2, NoLocal: true, RetainAsPublished: true, RetainHandling: 1, ID: 77}},
	}
	for _, got := range [][]engine.Subscription{subscribed, now} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("subscriptions (-want +got):\n%s", diff)
		}
	}
	if after.CreatedAt != before.CreatedAt || after.Username != "u" || after.Anonymous != before.Anonymous || after.Expiry != 1 {
		t.Errorf("the session was %+v and is %+v", before, after)
	}
	s.Close()
	until(t, "the session has expired", func() bool { return len(c.owners("c")) == 0 })
}

// TestNewOwnerFails leaves the session where it is if the node that claimed it does not
// respond any more.
func TestNewOwnerFails(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]byte{{kindFetch, kindCancel, kindStatus}, {kindFetch, kindStatus}, {kindFetch, kindCancel}} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) { inVirtualTime(t, func(t *testing.T) { testNewOwnerFails(t, kinds) }) })
	}
}

func testNewOwnerFails(t *testing.T, kinds []byte) {
	c := newCluster(t, 2, shortTimeouts)
	here, there := c.nodes[0], c.nodes[1]
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 1)
	s.Close()
	check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("0")}))
	c.injectFaults(func(request []byte) fault { return fault{before: slices.Contains(kinds, request[1])} })
	if _, err := there.TryConnect(keeps("c")); !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Errorf("the client was refused with %v", err)
	}
	until(t, "the session is kept", func() bool { return here.sessions.Figures().Kept > 0 })
	c.injectFaults(func([]byte) fault { return fault{} })
	check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("1")}))
	until(t, "all nodes respond", c.allReachable)
	s = here.Connect(keeps("c"))
	if !s.Present {
		t.Fatal("the session is lost")
	}
	for i := range 2 {
		m := s.WantMessage()
		if m.Payload != fmt.Sprint(i) {
			t.Errorf("got %v, want %d", m, i)
		}
		s.Ack(packet.TypePuback, m.ID)
	}
	until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{-1}) })
}

// TestConfirmationLost has the previous node learn that the session was imported: by asking,
// or by a repeated confirmation.
func TestConfirmationLost(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(request []byte) fault{
		"asks":     func(request []byte) fault { return fault{before: request[1] == kindConfirm} },
		"repeated": func(request []byte) fault { return fault{before: request[1] == kindStatus} },
	} {
		t.Run(name, func(t *testing.T) { inVirtualTime(t, func(t *testing.T) { testConfirmationLost(t, after) }) })
	}
}

func testConfirmationLost(t *testing.T, after func(request []byte) fault) {
	c := newCluster(t, 2, shortTimeouts)
	here, there := c.nodes[0], c.nodes[1]
	here.Connect(keeps("c")).Subscribe("a", 1)
	c.injectFaults(func(request []byte) fault {
		return fault{before: request[1] == kindConfirm || request[1] == kindStatus}
	})
	if !there.Connect(keeps("c")).Present {
		t.Error("the session is not present")
	}
	if got := c.owners("c"); !slices.Equal(got, []int{1, -2}) {
		t.Errorf("the session is at %v", got)
	}
	c.injectFaults(after)
	until(t, "the session is at one node", func() bool { return slices.Equal(c.owners("c"), []int{-2}) })
	until(t, "it was handed over once", func() bool { return here.sessions.Figures().HandedOver == 1 })
}

// TestUnreachablePeer lets clients in without a node that does not respond: the first one
// after the timeout, the others at once.
func TestUnreachablePeer(t *testing.T) { inVirtualTime(t, testUnreachablePeer) }

func testUnreachablePeer(t *testing.T) {
	c := newCluster(t, 2, shortTimeouts)
	c.nodes[1].setIsolated(true)
	for i := range 3 {
		began := time.Now()
		c.nodes[0].Connect(keeps(fmt.Sprint("c", i)))
		if took := time.Since(began); i > 0 && took > 0 {
			t.Errorf("the client waited for %v", took)
		}
	}
	if f := c.nodes[0].sessions.Figures(); f.Skipped > 1 || f.Unreachable != 1 {
		t.Errorf("figures: %+v", f)
	}
	c.nodes[1].setIsolated(false)
	until(t, "all nodes respond", c.allReachable)
}

// TestFailedPeer lets clients in soon without a node that was heard from before and at whose address
// nothing listens any more. Another one may be about to start.
func TestFailedPeer(t *testing.T) {
	for name, responded := range map[string]bool{"has failed": true, "has not started": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testFailedPeer(t, responded) })
		})
	}
}

func testFailedPeer(t *testing.T, responded bool) {
	const timeout = 2 * time.Second
	c := newCluster(t, 2, func(o *sessions.Options) { o.RequestTimeout = timeout })
	here := c.nodes[0]
	if responded {
		here.Connect(keeps("before"))
	}
	c.injectFaults(func([]byte) fault { return fault{refused: true} })
	if !responded {
		here.sessions.Close()
		here.sessions = sessions.New(sessions.Options{Self: 1, Engine: here.Engine, Net: here, RequestTimeout: timeout})
		here.sessions.Open()
		t.Cleanup(here.sessions.Close)
	}
	began := time.Now()
	here.Connect(keeps("c"))
	took := time.Since(began)
	if responded && took > 500*time.Millisecond || !responded && took < timeout {
		t.Errorf("the client waited for %v", took)
	}
}

// TestMoveWithBrokenLink moves a session while messages for it wait for a broken link although
// all nodes respond: the link of the new owner or that of a third node. The session moves once
// they have arrived; until then the client is refused.
func TestMoveWithBrokenLink(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from  int
		mends bool
	}{
		"of the new node":       {2, true},
		"of a third one":        {3, true},
		"of the new node, dead": {2, false},
		"of a third one, dead":  {3, false},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testMoveWithBrokenLink(t, c.from, c.mends) })
		})
	}
}

func testMoveWithBrokenLink(t *testing.T, from int, mends bool) {
	c := newCluster(t, 3)
	s := c.nodes[0].Connect(keeps("c"))
	s.Subscribe("a", 1)
	s.Close()
	c.breakLink(from, 1)
	until(t, "the link is broken", func() bool { return !c.nodes[from-1].linked() })
	acknowledged := make(chan error, 1)
	go func() {
		acknowledged <- c.nodes[from-1].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("before")})
	}()
	synctest.Wait()
	if !mends {
		if _, err := c.nodes[1].TryConnect(keeps("c")); !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
			t.Errorf("the client is refused with %v", err)
		}
	}
	connected := make(chan *enginetest.Client, 1)
	go func() { connected <- c.nodes[1].Connect(keeps("c")) }()
	<-time.After(3 * time.Second) // the link is dialled repeatedly meanwhile
	c.mendLink(from, 1)
	s = <-connected
	if !s.Present {
		t.Error("the session is lost")
	}
	check(t, <-acknowledged)
	check(t, c.nodes[1].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("after")}))
	for _, payload := range []string{"before", "after"} {
		m := s.WantMessage()
		if m.Payload != payload {
			t.Fatalf("got %v, want %q", m, payload)
		}
		s.Ack(packet.TypePuback, m.ID)
	}
}

// TestClose leaves sessions that are being moved where they are.
func TestClose(t *testing.T) { inVirtualTime(t, testClose) }

func testClose(t *testing.T) {
	c := newCluster(t, 2)
	here, there := c.nodes[0], c.nodes[1]
	here.Connect(keeps("c")).Subscribe("a", 1)
	c.injectFaults(func(request []byte) fault { return fault{before: request[1] == kindFetch} })
	refusal := make(chan error, 1)
	go func() {
		_, err := there.TryConnect(keeps("c"))
		refusal <- err
	}()
	until(t, "the session is being moved", func() bool { return here.sessions.Figures().HandoffsInProgress == 1 })
	here.sessions.Close()
	there.sessions.Close()
	if err := <-refusal; !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Errorf("the client was refused with %v", err)
	}
	if !here.Connect(keeps("c")).Present {
		t.Error("the session is lost")
	}
}
