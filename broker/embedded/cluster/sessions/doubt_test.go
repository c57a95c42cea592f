package sessions_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// inDoubt is a cluster in which node 1 has offered a session, node 2 has fetched it, and node 1
// does not know whether it was imported.
type inDoubt struct {
	*cluster
	here, there, third *node
	discarded          atomic.Int64
	held               enginetest.Message // which the client received at node 2 and did not release
}

// afterHandoff is when a handoff whose other node does not respond has ended.
const afterHandoff = 15 * time.Second

// newInDoubt has the session imported at node 2, where the client gets the messages "0" and
// "1" and releases the first. Requests of the given kinds are lost from then on.
func newInDoubt(t *testing.T, lost ...byte) *inDoubt {
	t.Helper()
	d := startInDoubt(t)
	d.lose(lost)
	s := d.there.Connect(keeps("c"))
	if !s.Present {
		t.Fatal("the session is not present at the node that imported it")
	}
	first := s.WantMessage()
	d.held = s.WantMessage()
	s.Ack(packet.TypePubrec, first.ID)
	s.Want(packet.TypePubrel)
	s.Ack(packet.TypePubcomp, first.ID)
	s.Ack(packet.TypePubrec, d.held.ID)
	s.Want(packet.TypePubrel)
	s.Close()
	if got := d.owners("c"); !slices.Contains(got, 1) {
		t.Fatalf("the session is at %v", got)
	}
	return d
}

// startInDoubt starts the cluster, with a session at node 1 and two messages for it.
func startInDoubt(t *testing.T) *inDoubt {
	t.Helper()
	d := &inDoubt{}
	d.cluster = newCluster(t, 3, func(o *sessions.Options) {
		o.RequestTimeout, o.HandoffTimeout = time.Second, 10*time.Second
		o.Discarded = func(_, messages int) { d.discarded.Add(int64(messages)) }
	})
	d.here, d.there, d.third = d.nodes[0], d.nodes[1], d.nodes[2]
	h := keeps("c")
	h.SessionExpiry = 60
	s := d.here.Connect(h)
	s.Subscribe("a", 2)
	s.Close()
	until(t, "the client is disconnected", func() bool { return slices.Equal(d.owners("c"), []int{1}) })
	for i := range 2 {
		check(t, d.here.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: fmt.Append(nil, i)}))
	}
	return d
}

// lose loses requests of these kinds from now on, and no others.
func (d *inDoubt) lose(kinds []byte) {
	d.injectFaults(func(request []byte) fault { return fault{before: slices.Contains(kinds, request[1])} })
}

// TestSessionInDoubt lets a client in without its session where only an old copy of it can be
// reached: of what the new owner sent, the copy does not know.
func TestSessionInDoubt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		isolate, connect int
		pause            time.Duration
	}{
		"at the previous node":                    {isolate: 2, connect: 1},
		"at the previous node, after the timeout": {isolate: 2, connect: 1, pause: afterHandoff},
		"at a third node":                         {isolate: 2, connect: 3},
		"at the previous node, isolated":          {isolate: 1, connect: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testSessionInDoubt(t, c.isolate, c.connect, c.pause) })
		})
	}
}

func testSessionInDoubt(t *testing.T, isolate, connect int, pause time.Duration) {
	d := newInDoubt(t, kindConfirm)
	d.nodes[isolate-1].setIsolated(true)
	<-time.After(pause)
	s := d.nodes[connect-1].Connect(keeps("c"))
	if s.Present {
		t.Error("the client is told that its session is present")
	}
	s.Subscribe("a", 2)
	check(t, d.nodes[connect-1].Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte("new")}))
	if m := s.WantMessage(); m.Payload != "new" {
		t.Errorf("got %v", m)
	}
	d.lose(nil)
	d.nodes[isolate-1].setIsolated(false)
	until(t, "the session is at one node", func() bool { return slices.Equal(d.owners("c"), []int{-connect}) })
	until(t, "all nodes respond", d.allReachable)
}

// TestDoubtResolved connects a client while the new owner of its session responds again: the
// session is present, without the old copy.
func TestDoubtResolved(t *testing.T) {
	t.Parallel()
	for connect := 1; connect <= 3; connect++ {
		for name, pause := range map[string]time.Duration{"at once": 0, "after the timeout": afterHandoff} {
			t.Run(fmt.Sprint("node ", connect, " ", name), func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T) { testDoubtResolved(t, connect, pause) })
			})
		}
	}
}

func testDoubtResolved(t *testing.T, connect int, pause time.Duration) {
	d := newInDoubt(t, kindConfirm, kindStatus)
	<-time.After(pause)
	d.lose([]byte{kindConfirm})
	s := d.nodes[connect-1].Connect(keeps("c"))
	if !s.Present {
		t.Fatal("the session is lost")
	}
	d.wantHeld(t, s)
	d.lose(nil)
	until(t, "the session is at one node", func() bool { return slices.Equal(d.owners("c"), []int{-connect}) })
	until(t, "all nodes respond", d.allReachable)
	d.wantNoMore(t, s)
	d.wantDiscarded(t, 0)
}

// wantHeld receives the PUBREL of the message that the client still has.
func (d *inDoubt) wantHeld(t *testing.T, s *enginetest.Client) {
	t.Helper()
	if p := s.Want(packet.TypePubrel); enginetest.PacketID(p) != d.held.ID {
		t.Errorf("PUBREL has the id %d, want %d", enginetest.PacketID(p), d.held.ID)
	}
	s.Ack(packet.TypePubcomp, d.held.ID)
}

// wantNoMore wants a new message to be the next.
func (d *inDoubt) wantNoMore(t *testing.T, s *enginetest.Client) {
	t.Helper()
	check(t, d.third.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte("new")}))
	if m := s.WantMessage(); m.Payload != "new" || m.Dup {
		t.Errorf("got %v", m)
	}
}

// TestFetchedAndNotImported keeps a session whose new owner did not get the last page: all of
// it is present as soon as that node confirms that. Until then it is not.
func TestFetchedAndNotImported(t *testing.T) {
	t.Parallel()
	for connect := 1; connect <= 3; connect++ {
		t.Run(fmt.Sprint("node ", connect), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testFetchedAndNotImported(t, connect) })
		})
	}
}

func testFetchedAndNotImported(t *testing.T, connect int) {
	d := startInDoubt(t)
	d.injectFaults(func(request []byte) fault {
		return fault{after: request[1] == kindFetch, before: request[1] == kindCancel || request[1] == kindStatus}
	})
	if _, err := d.there.TryConnect(keeps("c")); !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Errorf("the client was refused with %v", err)
	}
	d.lose([]byte{kindCancel})
	s := d.nodes[connect-1].Connect(keeps("c"))
	if !s.Present {
		t.Fatal("the session is lost")
	}
	for i := range 2 {
		if m := s.WantMessage(); m.Payload != fmt.Sprint(i) {
			t.Errorf("got %v, want %d", m, i)
		}
	}
	d.lose(nil)
	until(t, "the session is at one node", func() bool { return slices.Equal(d.owners("c"), []int{-connect}) })
	d.wantNoMore(t, s)
}

// TestEndOfDoubt ends a session whose doubt cannot be resolved, and leaves it where its client
// may not have it or the node serves clients alone.
func TestEndOfDoubt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, d *inDoubt){
		"Clean Start":                 testCleanStartInDoubt,
		"Clean Start at a third node": testCleanStartElsewhere,
		"another user":                testOtherUserInDoubt,
		"expiry":                      testExpiryInDoubt,
		"node removed":                testNodeRemovedInDoubt,
		"at rest":                     testAtRestInDoubt,
		"closed":                      testCloseInDoubt,
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				d := newInDoubt(t, kindConfirm, kindStatus)
				d.there.setIsolated(true)
				<-time.After(afterHandoff)
				if got := d.owners("c"); !slices.Equal(got, []int{1, 2}) {
					t.Fatalf("the session is at %v", got)
				}
				test(t, d)
			})
		})
	}
}

// wantDiscarded wants a number of messages to have been reported as discarded.
func (d *inDoubt) wantDiscarded(t *testing.T, want int64) {
	t.Helper()
	if got := d.discarded.Load(); got != want {
		t.Errorf("%d messages were reported as discarded, want %d", got, want)
	}
}

func testCleanStartInDoubt(t *testing.T, d *inDoubt) {
	if d.here.Connect(enginetest.Clean("c")).Present {
		t.Error("a session is present")
	}
	d.wantDiscarded(t, 0)
}

func testCleanStartElsewhere(t *testing.T, d *inDoubt) {
	d.third.Connect(enginetest.Clean("c"))
	if got := d.owners("c"); !slices.Equal(got, []int{2, -3}) {
		t.Errorf("the session is at %v", got)
	}
	d.wantDiscarded(t, 0)
}

func testOtherUserInDoubt(t *testing.T, d *inDoubt) {
	for _, clean := range []bool{false, true} {
		other := keeps("c")
		other.Username, other.HasUsername, other.CleanStart = "other", true, clean
		if _, err := d.here.TryConnect(other); !errors.Is(err, enginetest.Refused(packet.ReasonClientIDNotValid)) {
			t.Errorf("Clean Start %t: the client was refused with %v", clean, err)
		}
	}
	d.lose(nil)
	d.there.setIsolated(false)
	until(t, "the session is where it was imported", func() bool { return slices.Equal(d.owners("c"), []int{2}) })
}

func testExpiryInDoubt(t *testing.T, d *inDoubt) {
	until(t, "the session has expired", func() bool { return slices.Equal(d.owners("c"), []int{2}) })
	if d.here.Connect(keeps("c")).Present {
		t.Error("a session is present")
	}
	d.wantDiscarded(t, 0)
}

func testNodeRemovedInDoubt(t *testing.T, d *inDoubt) {
	d.there.remove()
	until(t, "the session has ended", func() bool { return slices.Equal(d.owners("c"), []int{2}) })
	d.wantDiscarded(t, 2)
}

// testAtRestInDoubt has the node suspended for a while: it does not know the members then.
func testAtRestInDoubt(t *testing.T, d *inDoubt) {
	d.here.setAtRest(true)
	<-time.After(time.Minute / 2)
	if got := d.owners("c"); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("the session is at %v", got)
	}
	d.wantDiscarded(t, 0)
	d.here.setAtRest(false)
	d.lose(nil)
	d.there.setIsolated(false)
	until(t, "the session is where it was imported", func() bool { return slices.Equal(d.owners("c"), []int{2}) })
	d.wantDiscarded(t, 0)
}

func testCloseInDoubt(t *testing.T, d *inDoubt) {
	d.here.sessions.Close()
	s := d.here.Connect(keeps("c"))
	if !s.Present {
		t.Error("the session is lost")
	}
	for range 2 {
		s.WantMessage()
	}
	check(t, d.here.Publish(&engine.Message{Topic: "a", QoS: 2, Payload: []byte("new")}))
	if m := s.WantMessage(); m.Payload != "new" {
		t.Errorf("got %v", m)
	}
}

// TestSupersededInDoubt has a client connect elsewhere while the node that has its session in
// doubt asks for the status: nothing ends.
func TestSupersededInDoubt(t *testing.T) { inVirtualTime(t, testSupersededInDoubt) }

func testSupersededInDoubt(t *testing.T) {
	d := newInDoubt(t, kindConfirm, kindStatus)
	<-time.After(afterHandoff)
	asked := make(chan struct{}, 1)
	d.injectFaults(func(request []byte) (f fault) {
		f.before = request[1] == kindConfirm || request[1] == kindStatus
		if request[1] == kindStatus {
			f.delay = time.Hour // it takes up the whole timeout, and is not repeated
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		return f
	})
	<-asked // what was under way may be near its timeout
	<-asked // the other node has just responded, and is reachable for a second
	refusal := make(chan error, 1)
	go func() {
		_, err := d.here.TryConnect(keeps("c"))
		refusal <- err
	}()
	<-time.After(time.Second / 2)
	if !d.third.Connect(keeps("c")).Present {
		t.Error("the session is lost")
	}
	if err := <-refusal; !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Errorf("the client was refused with %v", err)
	}
	if got := d.owners("c"); !slices.Contains(got, 1) {
		t.Errorf("the session is at %v", got)
	}
	d.wantDiscarded(t, 0)
	d.lose(nil)
	until(t, "the session is at one node", func() bool { return slices.Equal(d.owners("c"), []int{-3}) })
}
