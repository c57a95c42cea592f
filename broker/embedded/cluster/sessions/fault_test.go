package sessions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// TestMovedSession shows a session as it was, at another node, and ends it there
// when its time has come.
func TestMovedSession(t *testing.T) { virtually(t, testMovedSession) }

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
	until(t, "the session has expired", func() bool { return len(c.sessions("c")) == 0 })
}

// TestTakerFails leaves the session where it is if the node that wants it is not
// heard of any more.
func TestTakerFails(t *testing.T) {
	t.Parallel()
	for _, kinds := range [][]byte{{kindFetch, kindKeep, kindStatus}, {kindFetch, kindStatus}, {kindFetch, kindKeep}} {
		t.Run(fmt.Sprint(kinds), func(t *testing.T) { virtually(t, func(t *testing.T) { testTakerFails(t, kinds) }) })
	}
}

func testTakerFails(t *testing.T, kinds []byte) {
	c := newCluster(t, 2, impatient)
	here, there := c.nodes[0], c.nodes[1]
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 1)
	s.Close()
	check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("0")}))
	c.spoil(func(request []byte) fault { return fault{before: slices.Contains(kinds, request[1])} })
	if _, err := there.TryConnect(keeps("c")); !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Errorf("the client is told %v", err)
	}
	until(t, "the session is kept", func() bool { return here.claims.Figures().Kept > 0 })
	c.spoil(func([]byte) fault { return fault{} })
	check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("1")}))
	until(t, "all answer", c.answers)
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
	until(t, "the session is at one node", func() bool { return slices.Equal(c.sessions("c"), []int{-1}) })
}

// TestFarewellLost has the node that gave a session find out that it has arrived:
// by asking, or by being told again.
func TestFarewellLost(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(request []byte) fault{
		"asks":       func(request []byte) fault { return fault{before: request[1] == kindDone} },
		"told again": func(request []byte) fault { return fault{before: request[1] == kindStatus} },
	} {
		t.Run(name, func(t *testing.T) { virtually(t, func(t *testing.T) { testFarewellLost(t, after) }) })
	}
}

func testFarewellLost(t *testing.T, after func(request []byte) fault) {
	c := newCluster(t, 2, impatient)
	here, there := c.nodes[0], c.nodes[1]
	here.Connect(keeps("c")).Subscribe("a", 1)
	c.spoil(func(request []byte) fault { return fault{before: request[1] == kindDone || request[1] == kindStatus} })
	if !there.Connect(keeps("c")).Present {
		t.Error("there is no session")
	}
	if got := c.sessions("c"); !slices.Equal(got, []int{1, -2}) {
		t.Errorf("the session is at %v", got)
	}
	c.spoil(after)
	until(t, "the session is at one node", func() bool { return slices.Equal(c.sessions("c"), []int{-2}) })
	until(t, "it was given once", func() bool { return here.claims.Figures().Given == 1 })
}

// TestDeadPeer lets clients in without a node that does not answer, the first one
// after a while and the others at once.
func TestDeadPeer(t *testing.T) { virtually(t, testDeadPeer) }

func testDeadPeer(t *testing.T) {
	c := newCluster(t, 2, impatient)
	c.nodes[1].part(true)
	for i := range 3 {
		began := time.Now()
		c.nodes[0].Connect(keeps(fmt.Sprint("c", i)))
		if took := time.Since(began); i > 0 && took > 0 {
			t.Errorf("the client waited for %v", took)
		}
	}
	if f := c.nodes[0].claims.Figures(); f.PassedOver > 1 || f.Unanswered != 1 {
		t.Errorf("figures: %+v", f)
	}
	c.nodes[1].part(false)
	until(t, "all answer", c.answers)
}

// TestSessionWithoutLink has a session move while messages for it wait for a link that
// is broken though all nodes answer: that of the node to which it moves, or of
// another one. It moves when they have come, or were given up.
func TestSessionWithoutLink(t *testing.T) {
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
		t.Run(name, func(t *testing.T) { virtually(t, func(t *testing.T) { testSessionWithoutLink(t, c.from, c.mends) }) })
	}
}

func testSessionWithoutLink(t *testing.T, from int, mends bool) {
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
	connected := make(chan *enginetest.Client, 1)
	go func() { connected <- c.nodes[1].Connect(keeps("c")) }()
	if mends {
		<-time.After(3 * time.Second) // the link is dialled again and again meanwhile
		c.mendLink(from, 1)
	}
	s = <-connected
	if !s.Present {
		t.Error("the session is lost")
	}
	check(t, <-acknowledged)
	check(t, c.nodes[1].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("after")}))
	want := []string{"before", "after"}
	if !mends {
		want = want[1:]
	}
	for _, payload := range want {
		m := s.WantMessage()
		if m.Payload != payload {
			t.Fatalf("got %v, want %q", m, payload)
		}
		s.Ack(packet.TypePuback, m.ID)
	}
}

// TestClose leaves sessions that are on their way where they are.
func TestClose(t *testing.T) { virtually(t, testClose) }

func testClose(t *testing.T) {
	c := newCluster(t, 2)
	here, there := c.nodes[0], c.nodes[1]
	here.Connect(keeps("c")).Subscribe("a", 1)
	c.spoil(func(request []byte) fault { return fault{before: request[1] == kindFetch} })
	refusal := make(chan error, 1)
	go func() {
		_, err := there.TryConnect(keeps("c"))
		refusal <- err
	}()
	until(t, "the session is on its way", func() bool { return here.claims.Figures().Waiting == 1 })
	here.claims.Close()
	there.claims.Close()
	if err := <-refusal; !errors.Is(err, enginetest.Refused(packet.ReasonServerUnavailable)) {
		t.Errorf("the client is told %v", err)
	}
	if !here.Connect(keeps("c")).Present {
		t.Error("the session is gone")
	}
}
