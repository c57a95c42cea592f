package mesh_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/mqtt/packet"
)

// TestLossesAreCounted publishes messages for clients of a node that was stopped. Those for sessions
// that have ended with it are counted, each once, queued or not; those for others are stored, and
// counted when the node is removed.
func TestLossesAreCounted(t *testing.T) { inVirtualTime(t, testLossesAreCounted) }

func testLossesAreCounted(t *testing.T) {
	const messages = 100
	f, n := startNodes(t, 2, func(f *network) { f.grace = 100 * time.Millisecond })
	reader, other := n[0].connect("reader", false), n[0].connect("other", true)
	reader.Subscribe("mine/#", 1)
	reader.Subscribe("$share/g/shared/#", 1)
	reader.Subscribe("kept/#", 1)
	other.Subscribe("kept/#", 1)
	other.Subscribe("mine/#", 0)
	c := n[1].connect("c", false)
	c.publish(packet.Outgoing{Topic: "mine/before", QoS: 1, PacketID: 1})
	f.disconnect(2, 1, true)
	for i := range messages {
		for _, topic := range []string{"mine", "shared", "kept"} {
			code := c.publish(packet.Outgoing{Topic: fmt.Sprint(topic, "/", i), QoS: 1, PacketID: 1})
			if code != 0 && (code != packet.ReasonNoMatchingSubscribers || topic == "kept") {
				t.Fatalf("message %d for %s is acknowledged with %#x", i, topic, code)
			}
		}
	}
	synctest.Wait()
	if got := n[1].figures(1); got.Abandoned != 2*messages || got.Stored != messages {
		t.Errorf("%d of %d lost messages above QoS 0 are counted, %d of %d are stored", got.Abandoned, 2*messages, got.Stored, messages)
	}
	n[1].mesh.SetPeers([]int{2})
	synctest.Wait()
	if got := n[1].losses.Total(mesh.LostUnreachable); got != 3*messages {
		t.Errorf("%d of %d are counted after the node was removed", got, 3*messages)
	}
}

// TestSharedIsNotLost does not count messages that another member of the shared subscription
// receives.
func TestSharedIsNotLost(t *testing.T) { inVirtualTime(t, testSharedIsNotLost) }

func testSharedIsNotLost(t *testing.T) {
	const messages = 50
	f, n := startNodes(t, 3, func(f *network) { f.grace = 100 * time.Millisecond })
	n[0].connect("one", true).Subscribe("$share/g/a", 1)
	other := n[2].connect("other", true)
	other.Subscribe("$share/g/a", 1)
	c := n[1].connect("c", false)
	f.unregister(1)
	n[0].close()
	for range messages {
		if code := c.publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}); code != 0 {
			t.Fatalf("a message is acknowledged with %#x", code)
		}
	}
	for range messages {
		other.next()
	}
	if got := n[1].losses.Total(mesh.LostUnreachable); got != 0 {
		t.Errorf("%d messages are counted as lost", got)
	}
}
