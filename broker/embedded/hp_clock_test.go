package embedded

import (
	"log/slog"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
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
		m := publisher.message("a", "x", 1, false)
		m.Properties.MessageExpiryInterval = 1800
		publisher.send(m)
		publisher.want(packets.Puback)
	}
	wantLeft := func(d *device) {
		t.Helper()
		if left := d.want(packets.Publish).Properties.MessageExpiryInterval; left < 1790 || left > 1810 {
			t.Errorf("the message has %d s left, want 1800", left)
		}
	}
	roamer := join(t, all[1].Broker, 5, login, withID("roamer"), persistent)
	roamer.subscribe(1, "a")
	publish()
	wantLeft(roamer)
	roamer.conn.Close()
	roamer.name = "roamer"
	roamer.wantForgotten(all[1].Broker)
	publish()
	for _, n := range []*node{all[2], all[0]} {
		roamer = dial(t, n.Broker, 5)
		if ack := roamer.sendConnect(login, withID("roamer"), persistent); !ack.SessionPresent {
			t.Errorf("the session has not moved to node %d", n.at.NodeID)
		}
		wantLeft(roamer)
		roamer.conn.Close()
		roamer.name = "roamer"
		roamer.wantForgotten(n.Broker)
	}
}
