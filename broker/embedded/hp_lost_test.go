package embedded

import (
	"fmt"
	"testing"

	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestHPLostMessagesAreCounted kills the node that has a session. Every message for it that
// another node acknowledges is counted there.
func TestHPLostMessagesAreCounted(t *testing.T) {
	t.Parallel()
	const messages, window = 400, 20
	all := gatherHP(t, func(n *node) { n.config.Cluster.DrainTimeout = 0 })
	reader := join(t, all[2].Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "news/#")
	p := joinPatient(t, all[0])
	p.publishAll("news/before", 1)
	reader.wantTopic("news/before")
	all[2].stop()
	sent := 0
	for ; sent < window; sent++ {
		p.Send(p.Message(fmt.Sprint("news/", sent), "x", 1, false))
	}
	for range messages {
		if ack := p.Want(packet.Puback); ack.Reason >= 0x80 {
			t.Fatalf("a message is answered with %#x", ack.Reason)
		}
		if sent < messages {
			p.Send(p.Message(fmt.Sprint("news/", sent), "x", 1, false))
			sent++
		}
	}
	if n := all[0].Losses().Total(mesh.LostUnreachable); n != messages {
		t.Errorf("%d of %d lost messages are counted", n, messages)
	}
	if n := all[1].Losses().Total(mesh.LostUnreachable); n != 0 {
		t.Errorf("%d messages are counted as lost at a node that has acknowledged none", n)
	}
}
