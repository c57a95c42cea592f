package mesh_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/mqtt/packet"
)

// TestLostAreCounted publishes messages for sessions of a node that was killed. Each
// that is acknowledged is counted by the node that acknowledges it: those that waited
// for the grace, and all after it, whether for one session or for a shared subscription.
func TestLostAreCounted(t *testing.T) { virtually(t, testLostAreCounted) }

func testLostAreCounted(t *testing.T) {
	const messages = 400
	f, n := weave(t, 2, func(f *fabric) { f.grace = 100 * time.Millisecond })
	reader := n[0].connect("reader", true)
	reader.Subscribe("mine/#", 1)
	reader.Subscribe("$share/g/shared/#", 1)
	reader.Subscribe("fast/#", 0)
	c := n[1].connect("c", false)
	c.publish(packet.Outgoing{Topic: "mine/before", QoS: 1, PacketID: 1})
	f.forget(1)
	n[0].close()
	for i := range messages {
		for _, topic := range []string{"mine", "shared", "fast"} {
			code := c.publish(packet.Outgoing{Topic: fmt.Sprint(topic, "/", i), QoS: 1, PacketID: 1})
			if code != 0 && code != packet.ReasonNoMatchingSubscribers {
				t.Fatalf("message %d for %s is answered with %#x", i, topic, code)
			}
		}
	}
	synctest.Wait()
	if got := n[1].figures(1); got.GivenUp != 2*messages {
		t.Errorf("%d of %d lost messages above QoS 0 are counted", got.GivenUp, 2*messages)
	}
	n[1].mesh.SetPeers([]int{2})
	if got := n[1].losses.Total(mesh.LostUnreachable); got != 2*messages {
		t.Errorf("%d of %d are counted once the node is no member any more", got, 2*messages)
	}
}

// TestSharedIsNotLost counts nothing as lost that another member of the shared
// subscription gets.
func TestSharedIsNotLost(t *testing.T) { virtually(t, testSharedIsNotLost) }

func testSharedIsNotLost(t *testing.T) {
	const messages = 50
	f, n := weave(t, 3, func(f *fabric) { f.grace = 100 * time.Millisecond })
	n[0].connect("one", true).Subscribe("$share/g/a", 1)
	other := n[2].connect("other", true)
	other.Subscribe("$share/g/a", 1)
	c := n[1].connect("c", false)
	f.forget(1)
	n[0].close()
	for range messages {
		if code := c.publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}); code != 0 {
			t.Fatalf("a message is answered with %#x", code)
		}
	}
	for range messages {
		other.next()
	}
	if got := n[1].losses.Total(mesh.LostUnreachable); got != 0 {
		t.Errorf("%d messages are counted as lost", got)
	}
}
