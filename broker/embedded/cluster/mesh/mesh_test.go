package mesh_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// TestDelivery sends messages of all QoS levels to other nodes, once however many
// subscriptions match, from SUBACK until UNSUBACK.
func TestDelivery(t *testing.T) { inVirtualTime(t, testDelivery) }

func testDelivery(t *testing.T) {
	_, n := startNodes(t, 3)
	reader, other, c := n[0].connect("reader", true), n[1].connect("other", false), n[2].connect("c", false)
	for _, f := range []string{"a/+", "a/#", "#"} {
		reader.Subscribe(f, 2)
	}
	other.Subscribe("a/b", 1)
	for qos := range byte(3) {
		for i := range 10 {
			payload := fmt.Sprint(qos, i)
			c.publish(packet.Outgoing{Topic: "a/b", Payload: []byte(payload), QoS: qos, PacketID: uint16(i + 1)})
			if m := reader.next(); m != (message{"a/b", payload, qos, false}) {
				t.Fatalf("got %v, want %s at QoS %d", m, payload, qos)
			}
			if m := other.next(); m != (message{"a/b", payload, min(qos, 1), false}) {
				t.Fatalf("got %v, want %s at QoS %d", m, payload, min(qos, 1))
			}
		}
	}
	other.unsubscribe("a/b")
	until(t, "the node knows the change", func() bool { return n[2].figures(2).Routes == 0 })
	c.publish(packet.Outgoing{Topic: "a/b", QoS: 1, PacketID: 1})
	reader.next()
	for _, one := range n {
		for _, f := range one.mesh.Figures() {
			want := int64(0)
			if one == n[2] {
				want = 31 - int64(f.Node-1)
			}
			if f.Sent != want {
				t.Errorf("node %d has sent %d messages to node %d, want %d", one.id, f.Sent, f.Node, want)
			}
		}
	}
	if r := c.publish(packet.Outgoing{Topic: "nobody/b", QoS: 1, PacketID: 1}); r != packet.ReasonSuccess { // "#" matches
		t.Errorf("got code %d", r)
	}
}

// TestOrder keeps the order of every publisher at every node, without loops or duplicates.
func TestOrder(t *testing.T) { inVirtualTime(t, testOrder) }

func testOrder(t *testing.T) {
	const nodes, messages = 3, 400
	_, n := startNodes(t, nodes, func(f *network) { f.unlimitedInflight = true }) // else QoS 0 overtakes what waits for acknowledgements
	var readers []*client
	for i := range n {
		c := n[i].connect(fmt.Sprint("reader", i), i%2 == 0)
		c.Subscribe("load/#", 2)
		readers = append(readers, c)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := n[i].connect(fmt.Sprint("c", i), false)
			for k := range messages {
				c.publish(packet.Outgoing{
					Topic: fmt.Sprint("load/", i), Payload: fmt.Append(nil, k), QoS: byte(k % 3), PacketID: uint16(k%100 + 1),
				})
			}
		})
	}
	for _, r := range readers {
		wg.Go(func() {
			next := map[string]int{}
			for range nodes * messages {
				m := r.next()
				if want := fmt.Sprint(next[m.topic]); m.payload != want {
					t.Errorf("got message %s of %s, want %s", m.payload, m.topic, want)
					return
				}
				next[m.topic]++
			}
		})
	}
	wg.Wait()
	for _, r := range readers {
		r.expectNoMessages()
	}
}

// TestFlush waits until a node has stored what it was sent, but not for a node that does not
// exist.
func TestFlush(t *testing.T) { inVirtualTime(t, testFlush) }

func testFlush(t *testing.T) {
	_, n := startNodes(t, 2)
	reader := n[1].connect("reader", true)
	reader.Subscribe("t", 1)
	p := n[0].NewPublisher()
	for i := range 50 {
		if !p.Publish(&engine.Message{Topic: "t", Payload: fmt.Append(nil, i), QoS: 1}) {
			t.Fatal("a message was refused")
		}
		if err := n[0].mesh.Flush(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if got := n[0].mesh.Figures()[0].Waiting; got != 0 {
			t.Errorf("%d messages wait", got)
		}
	}
	if err := n[0].mesh.Flush(t.Context(), 3); err != nil {
		t.Error(err)
	}
}

// TestSubscribed publishes at one node as soon as another one has acknowledged the
// subscription.
func TestSubscribed(t *testing.T) { inVirtualTime(t, testSubscribed) }

func testSubscribed(t *testing.T) {
	_, n := startNodes(t, 3)
	c := n[0].connect("c", false)
	for i := range 200 {
		reader := n[1+i%2].connect("reader", false)
		topic := fmt.Sprint("topic/", i)
		reader.Subscribe(topic, 0)
		c.publish(packet.Outgoing{Topic: topic})
		if m := reader.next(); m.topic != topic {
			t.Fatalf("got %v, want %s", m, topic)
		}
		reader.unsubscribe(topic)
	}
}

// TestSubscribedWhileDialling breaks the link by which another node learns of a subscription:
// SUBACK waits for the next link, but not for a node that cannot be dialled.
func TestSubscribedWhileDialling(t *testing.T) { inVirtualTime(t, testSubscribedWhileDialling) }

func testSubscribedWhileDialling(t *testing.T) {
	f, n := startNodes(t, 2)
	c, reader := n[1].connect("c", false), n[0].connect("reader", false)
	for i := range 20 {
		topic := fmt.Sprint("topic/", i)
		f.disconnect(1, 2, false)
		if i%2 == 0 {
			synctest.Wait() // the node has noticed
		}
		reader.Subscribe(topic, 0)
		c.publish(packet.Outgoing{Topic: topic})
		if m := reader.next(); m.topic != topic {
			t.Fatalf("got %v, want %s", m, topic)
		}
	}
	f.disconnect(1, 2, true)
	began := time.Now()
	reader.Subscribe("alone", 0)
	reader.Subscribe("again", 0)
	if took := time.Since(began); took > 200*time.Millisecond {
		t.Errorf("SUBACK waited %v for a node that cannot be reached", took)
	}
}

// TestShared delivers every message to one member, wherever members and publishers are, and
// some at every node.
func TestShared(t *testing.T) { inVirtualTime(t, testShared) }

func testShared(t *testing.T) {
	const nodes, messages = 3, 300
	_, n := startNodes(t, nodes)
	var mu sync.Mutex
	seen, byNode := map[string]int{}, map[int]int{}
	total := 0
	for i := range n {
		for k := range 2 {
			c := n[i].connect(fmt.Sprint("member", i, k), false)
			c.Subscribe("$share/g/work/#", 1)
			go func() {
				for {
					m, ok := c.tryNext()
					if !ok {
						return
					}
					mu.Lock()
					seen[m.topic+m.payload]++
					byNode[i]++
					total++
					mu.Unlock()
				}
			}()
		}
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			c := n[i].connect(fmt.Sprint("c", i), false)
			for k := range messages {
				c.publish(packet.Outgoing{Topic: fmt.Sprint("work/", i), Payload: fmt.Append(nil, "-", k), QoS: byte(k % 2), PacketID: 1})
			}
		})
	}
	wg.Wait()
	until(t, "all messages were received", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return total >= nodes*messages
	})
	mu.Lock()
	defer mu.Unlock()
	for m, times := range seen {
		if times != 1 {
			t.Errorf("%s came %d times", m, times)
		}
	}
	if len(seen) != nodes*messages || len(byNode) != nodes {
		t.Errorf("%d different messages at %d nodes, want %d at %d", len(seen), len(byNode), nodes*messages, nodes)
	}
}

// TestSharedLeaves delivers messages to another member where the last one of a node leaves
// while they are in flight.
func TestSharedLeaves(t *testing.T) { inVirtualTime(t, testSharedLeaves) }

func testSharedLeaves(t *testing.T) {
	_, n := startNodes(t, 2)
	stays := n[0].connect("stays", false)
	stays.Subscribe("$share/g/work", 1)
	const messages = 300
	got := make(chan string, 2*messages)
	go func() {
		for {
			m, ok := stays.tryNext()
			if !ok {
				return
			}
			got <- m.payload
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := n[0].connect("c", false)
		for k := range messages {
			c.publish(packet.Outgoing{Topic: "work", Payload: fmt.Append(nil, k), QoS: 1, PacketID: 1})
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			goes := n[1].connect("goes", false)
			each := func(m message) { got <- m.payload }
			goes.Send(packet.AppendSubscribe(nil, packet.V5, &packet.Subscribe{
				PacketID: 1, Filters: []packet.Filter{{Filter: "$share/g/work", Options: 1}},
			}))
			goes.until(packet.TypeSuback, each)
			goes.Send(packet.AppendUnsubscribe(nil, packet.V5, &packet.Unsubscribe{PacketID: 1, Filters: []string{"$share/g/work"}}))
			goes.until(packet.TypeUnsuback, each)
			goes.Close()
		}
	}
	seen := map[string]bool{}
	for len(seen) < messages {
		seen[<-got] = true
	}
}

// TestLastWill sends the Wills of a node that closes to the others.
func TestLastWill(t *testing.T) { inVirtualTime(t, testLastWill) }

func testLastWill(t *testing.T) {
	_, n := startNodes(t, 2)
	reader := n[0].connect("reader", false)
	reader.Subscribe("will", 1)
	n[1].connect("c", false, func(h *packet.Connect) { h.Will = &packet.Will{Topic: "will", Payload: []byte("gone"), QoS: 1} })
	n[1].close()
	if m := reader.next(); m.payload != "gone" {
		t.Errorf("got %v", m)
	}
}

// channelTap is a tap that delays acknowledgements.
type channelTap chan func(error)

func (d channelTap) Keeps() bool                                          { return true }
func (d channelTap) Take(_ messaging.Message, h messaging.CommitNotifier) { d <- h.Committed }

// TestTap delivers messages to taps of other nodes, and acknowledges them when these do.
func TestTap(t *testing.T) { inVirtualTime(t, testTap) }

func testTap(t *testing.T) {
	_, n := startNodes(t, 2)
	tap := make(channelTap, 10)
	end := n[1].Open("a/#", tap)
	until(t, "the other node knows of the tap", func() bool { return n[0].figures(2).Routes == 1 })
	c := n[0].connect("c", false)
	for _, qos := range []byte{1, 2} {
		c.Send(packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "a/b", QoS: qos, PacketID: 7}))
		settled := <-tap
		c.expectNothing()
		settled(nil)
		if code := c.WantAck(packet.TypePuback + qos - 1).Reason; code != 0 {
			t.Errorf("got code %d", code)
		}
	}
	end()
	until(t, "the other node knows the tap is closed", func() bool { return n[0].figures(2).Routes == 0 })
}
