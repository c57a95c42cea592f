package embedded

import (
	"log/slog"
	"testing"
	"time"

	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestFullClocksDiffer moves the leadership between nodes whose clocks differ by 400 days:
// what the first node stored has the same time left at the next, even if that was restarted
// with another time of day.
func TestFullClocksDiffer(t *testing.T) {
	t.Parallel()
	machines := map[int]*clocktest.Machine{}
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) }, func(n *node) {
		m := clocktest.New()
		m.Step(time.Duration(n.at.NodeID) * 400 * days)
		machines[n.at.NodeID] = m
		n.config.Clock = clock.New(m.Sources(), slog.New(slog.DiscardHandler))
	})
	pass := func(d time.Duration) {
		for _, m := range machines {
			m.Pass(d)
		}
	}
	timed := func() {
		t.Helper()
		eventually(t, "all nodes have the time of the leader", func() bool {
			leader := all.leader()
			for _, n := range all {
				if leader == nil || n.Broker == nil || !n.cluster.hasClusterTime.Load() || n.timeline.Now().Sub(leader.timeline.Now()).Abs() > 3*time.Second {
					return false
				}
			}
			return true
		})
	}
	first := all.serving(t)
	login := as("dev", "pw")
	join(t, first.Broker, 5, login, withID("sleeper"), persistent).Subscribe(1, "queued")
	publisher := join(t, first.Broker, 5, login)
	for topic, retain := range map[string]bool{"queued": false, "retained": true} {
		m := publisher.Message(topic, "x", 1, retain)
		m.Properties.MessageExpiry = 1800
		publisher.Send(m)
		publisher.Want(packet.Puback)
	}
	timed()
	pass(10 * time.Minute)

	next := all.others(first)[0]
	next.stop()
	machines[next.at.NodeID].Step(-800 * days)
	next.config.Clock = clock.New(machines[next.at.NodeID].Sources(), slog.New(slog.DiscardHandler))
	next.start()
	eventually(t, "the node is back", func() bool { return all.leader() == first && all.areAll() })
	timed()
	first.ask(control.SetLeader("plant", next.at.NodeID), nil)
	if all.serving(t) != next {
		t.Fatal("the other node does not serve")
	}
	sleeper := dial(t, next.Broker, 5)
	if ack := sleeper.SendConnect(login, withID("sleeper"), persistent); !ack.Present {
		t.Error("the session has expired")
	}
	if m := sleeper.Want(packet.Publish); m.Properties.MessageExpiry > 1200 || m.Properties.MessageExpiry < 1190 {
		t.Errorf("the message has %d s left, want 1200", m.Properties.MessageExpiry)
	}
	if _, kept := next.engine.RetainedOf("retained"); !kept {
		t.Error("the retained message has expired")
	}
	pass(21 * time.Minute)
	if _, kept := next.engine.RetainedOf("retained"); kept {
		t.Error("the retained message has not expired")
	}
}
