package embedded

import (
	"strings"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/mqtt/packet"
)

// TestLargeMessages shares messages up to the maximum size of a log entry, and refuses
// larger ones. Clients of a version without reason codes receive no acknowledgement.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) },
		func(n *node) { n.config.MaxPacketSize = 32 << 20 })
	leader := all.serving(t)
	reader := join(t, leader.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.subscribe(1, "news/#")
	reader.conn.Close()

	five, four := join(t, leader.Broker, 5, as("dev", "pw")), join(t, leader.Broker, 4, as("dev", "pw"))
	for mib, want := range map[int]byte{1: 0, 7: 0, 9: packet.ReasonQuotaExceeded} {
		if ack := five.publish("news/large", strings.Repeat("x", mib<<20), 1); ack.ReasonCode != want {
			t.Errorf("%d MiB: code %#x, want %#x", mib, ack.ReasonCode, want)
		}
	}
	four.send(four.message("news/too-large", strings.Repeat("x", 9<<20), 1, false))
	four.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	four.want(packets.Pingresp)
	five.publish("news/small", "x", 1)

	leader.stop()
	leader.start()
	if got := strings.Join(readAll(t, all.serving(t), 3), " "); got != "news/large news/large news/small" {
		t.Errorf("the reader got %s", got)
	}
}
