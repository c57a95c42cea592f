package embedded

import (
	"log/slog"
	"testing"
	"time"

	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestHPClocksDiffer sends messages between nodes whose clocks differ by 400 days, and
// moves a session with its queue: all have as much time left as before.
func TestHPClocksDiffer(t *testing.T) {
	t.Parallel()
	all := gatherHP(t, unhurried, func(n *node) {
		m := clocktest.New()
		m.Step(time.Duration(n.at.NodeID) * 400 * days)
		n.config.Clock = clock.New(m.Sources(), slog.New(slog.DiscardHandler))
	})
	eventually(t, "all nodes know how the clocks differ", func() bool {
		for _, n := range all {
			for _, other := range all.others(n) {
				if n.cluster.offsets.of(other.at.NodeID) == 0 {
					return false
				}
			}
		}
		return true
	})
	login := as("dev", "pw")
	publisher := join(t, all[0].Broker, 5, login)
	publish := func() {
		t.Helper()
		m := publisher.Message("a", "x", 1, false)
		m.Properties.MessageExpiry = 1800
		publisher.Send(m)
		publisher.Want(packet.Puback)
	}
	wantLeft := func(d *device) {
		t.Helper()
		if left := d.Want(packet.Publish).Properties.MessageExpiry; left < 1790 || left > 1810 {
			t.Errorf("the message has %d s left, want 1800", left)
		}
	}
	roamer := join(t, all[1].Broker, 5, login, withID("roamer"), persistent)
	roamer.Subscribe(1, "a")
	publish()
	wantLeft(roamer)
	roamer.Conn.Close()
	roamer.ID = "roamer"
	roamer.wantForgotten(all[1].Broker)
	publish()
	for _, n := range []*node{all[2], all[0]} {
		roamer = dial(t, n.Broker, 5)
		if ack := roamer.SendConnect(login, withID("roamer"), persistent); !ack.Present {
			t.Errorf("the session has not moved to node %d", n.at.NodeID)
		}
		wantLeft(roamer)
		roamer.Conn.Close()
		roamer.ID = "roamer"
		roamer.wantForgotten(n.Broker)
	}
}
