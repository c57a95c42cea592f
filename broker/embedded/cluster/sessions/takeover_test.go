package sessions_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// TestTakeOver moves a session to another node: the older connection receives a DISCONNECT,
// and in-flight messages are sent again.
func TestTakeOver(t *testing.T) { inVirtualTime(t, testTakeOver) }

func testTakeOver(t *testing.T) {
	c := newCluster(t, 3)
	here, there := c.nodes[0], c.nodes[1]
	first := here.Connect(keeps("c"))
	first.Subscribe("a", 1)
	check(t, c.nodes[2].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("0")}))
	sent := first.WantMessage()

	second := there.Connect(keeps("c"))
	if p := first.Want(packet.TypeDisconnect); p[2] != packet.ReasonSessionTakenOver {
		t.Errorf("DISCONNECT is % x", p)
	}
	if !second.Present {
		t.Fatal("the session is not present")
	}
	if got := c.owners("c"); !slices.Equal(got, []int{-2}) {
		t.Errorf("the session is at %v", got)
	}
	again := second.WantMessage()
	sent.Dup = true
	if again != sent {
		t.Errorf("got %v, want %v", again, sent)
	}
	check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: []byte("1")}))
	if m := second.WantMessage(); m.Payload != "1" || m.Dup {
		t.Errorf("got %v", m)
	}
	if f := there.sessions.Figures(); f.Received != 1 || f.Claims != 1 || f.Messages != 1 {
		t.Errorf("figures: %+v", f)
	}
	if f := here.sessions.Figures(); f.HandedOver != 1 || f.HandoffsInProgress != 0 {
		t.Errorf("figures: %+v", f)
	}
}

// TestCleanStart ends the session at another node and publishes its Will.
func TestCleanStart(t *testing.T) { inVirtualTime(t, testCleanStart) }

func testCleanStart(t *testing.T) {
	c := newCluster(t, 2)
	here, there := c.nodes[0], c.nodes[1]
	h := keeps("c")
	h.Will = &packet.Will{Topic: "will", Payload: []byte("w"), Delay: 1000}
	first := here.Connect(h)
	first.Subscribe("a", 1)
	watcher := here.Connect(packet.Connect{ClientID: "watcher"})
	watcher.Subscribe("will", 0)
	second := there.Connect(packet.Connect{ClientID: "c", CleanStart: true})
	if second.Present {
		t.Error("a session is present")
	}
	if m := watcher.WantMessage(); m.Payload != "w" {
		t.Errorf("got %v", m)
	}
	if got := c.owners("c"); !slices.Equal(got, []int{-2}) {
		t.Errorf("the session is at %v", got)
	}
}

// TestClientIDOfOtherUsername refuses a client id that belongs to another username at another
// node, and leaves its connection alone.
func TestClientIDOfOtherUsername(t *testing.T) { inVirtualTime(t, testClientIDOfOtherUsername) }

func testClientIDOfOtherUsername(t *testing.T) {
	c := newCluster(t, 2)
	h := keeps("c")
	c.nodes[0].Connect(h)
	h.Username, h.HasUsername = "other", true
	if _, err := c.nodes[1].TryConnect(h); !errors.Is(err, enginetest.Refused(packet.ReasonClientIDNotValid)) {
		t.Errorf("got %v", err)
	}
	if got := c.owners("c"); !slices.Equal(got, []int{-1}) {
		t.Errorf("the session is at %v", got)
	}
}

// TestSessionWithoutExpiry leaves nothing of a session that ends with its connection.
func TestSessionWithoutExpiry(t *testing.T) { inVirtualTime(t, testSessionWithoutExpiry) }

func testSessionWithoutExpiry(t *testing.T) {
	c := newCluster(t, 2)
	c.nodes[0].Connect(packet.Connect{ClientID: "c"})
	if c.nodes[1].Connect(packet.Connect{ClientID: "c"}).Present {
		t.Error("a session is present")
	}
	if got := c.owners("c"); !slices.Equal(got, []int{-2}) {
		t.Errorf("the session is at %v", got)
	}
}

// TestLargeQueue moves a queue of many pages, with messages larger than one response, in
// order.
func TestLargeQueue(t *testing.T) { inVirtualTime(t, testLargeQueue) }

func testLargeQueue(t *testing.T) {
	c := newCluster(t, 2)
	here, there := c.nodes[0], c.nodes[1]
	first := here.Connect(keeps("c"))
	first.Subscribe("a", 1)
	first.Close()
	sizes := []int{10, 9 << 20, 100, 20 << 20, 0}
	for i := range 3000 {
		sizes = append(sizes, i%2000)
	}
	for i, size := range sizes {
		check(t, here.Publish(&engine.Message{Topic: "a", QoS: 1, Payload: append(make([]byte, size), fmt.Sprint("|", i)...)}))
	}
	second := there.Connect(keeps("c"))
	for i, size := range sizes {
		m := second.WantMessage()
		want := fmt.Sprint("|", i)
		if len(m.Payload) != size+len(want) || m.Payload[size:] != want {
			t.Fatalf("message %d has %d bytes", i, len(m.Payload))
		}
		second.Ack(packet.TypePuback, m.ID)
	}
}

// TestRoamBeforePubrec has a client move while a message of QoS 2 that it has sent waits for a broken
// link, and thus has no PUBREC. It sends the message again to the new node, which does not publish it
// again [MQTT-4.3.3-12].
func TestRoamBeforePubrec(t *testing.T) {
	for name, subscribed := range map[string]bool{"subscribed": true, "without a subscription": false} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) { testRoamBeforePubrec(t, subscribed) })
		})
	}
}

func testRoamBeforePubrec(t *testing.T, subscribed bool) {
	c := newCluster(t, 3, func(o *sessions.Options) { o.HandoffTimeout = 0 })
	here, there, third := c.nodes[0], c.nodes[1], c.nodes[2]
	watcher := third.Connect(keeps("watcher"))
	watcher.Subscribe("a", 2)
	s := here.Connect(keeps("c"))
	if subscribed {
		s.Subscribe("b", 1)
	}
	c.breakLink(1, 3)
	until(t, "the link is broken", func() bool { return !here.linked() })
	message := packet.Outgoing{Topic: "a", QoS: 2, PacketID: 7, Payload: []byte("once")}
	s.Publish(message)
	synctest.Wait()
	s.Close()
	go func() {
		<-time.After(8 * time.Second)
		c.mendLink(1, 3)
	}()
	s = there.Connect(keeps("c"))
	if !s.Present {
		t.Fatal("the session is lost")
	}
	message.Dup = true
	s.Publish(message)
	s.Want(packet.TypePubrec)
	s.Ack(packet.TypePubrel, 7)
	s.Want(packet.TypePubcomp)
	wantMessages(t, watcher, "once")
	<-time.After(time.Minute)
	wantMessages(t, watcher)
}

// TestDuplicateUnderWay moves a session to a node that cannot reach a third one, whose message for it has
// arrived at the old node and waits for the link to the new one: it is delivered once.
func TestDuplicateUnderWay(t *testing.T) { inVirtualTime(t, testDuplicateUnderWay) }

func testDuplicateUnderWay(t *testing.T) {
	c := newCluster(t, 3, func(o *sessions.Options) { o.RequestTimeout, o.HandoffTimeout, o.ProbeInterval = 0, 0, 0 })
	here, there, third := c.nodes[0], c.nodes[1], c.nodes[2]
	there.Connect(keeps("other")).Subscribe("a", 2) // so that the message goes to both nodes
	s := here.Connect(keeps("c"))
	s.Subscribe("a", 2)
	s.Close()
	c.block(link{2, 3}, 1)
	c.block(link{3, 2}, 1)
	published := make(chan error, 1)
	go func() {
		published <- third.Publish(&engine.Message{Topic: "a", QoS: 2, CreatedAt: time.Now().UnixMilli(), Payload: []byte("once")})
	}()
	s = there.Connect(keeps("c"))
	wantMessages(t, s, "once")
	c.block(link{2, 3}, -1)
	c.block(link{3, 2}, -1)
	check(t, <-published)
	<-time.After(time.Minute)
	wantMessages(t, s)
}
