package embedded

import (
	"strings"
	"testing"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestLargeMessages shares messages up to the maximum size of a log entry, and refuses
// larger ones. Clients of a version without reason codes receive no acknowledgement.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) },
		func(n *node) { n.config.MaxPacketSize = 32 << 20 })
	leader := all.serving(t)
	reader := join(t, leader.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "news/#")
	reader.Conn.Close()

	five, four := join(t, leader.Broker, 5, as("dev", "pw")), join(t, leader.Broker, 4, as("dev", "pw"))
	for mib, want := range map[int]byte{1: 0, 7: 0, 9: packet.QuotaExceeded} {
		if got := five.Publish("news/large", strings.Repeat("x", mib<<20), 1); got != want {
			t.Errorf("%d MiB: code %#x, want %#x", mib, got, want)
		}
	}
	four.Send(four.Message("news/too-large", strings.Repeat("x", 9<<20), 1, false))
	four.Ping()
	five.Publish("news/small", "x", 1)

	leader.stop()
	leader.start()
	if got := strings.Join(readAll(t, all.serving(t), 3), " "); got != "news/large news/large news/small" {
		t.Errorf("the reader got %s", got)
	}
}
