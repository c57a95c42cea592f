package embedded

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestHPAwayNode kills the node that has a session, for longer than messages wait for it in memory.
// What another node acknowledges meanwhile is at the session once its node is back, in order, though
// the other node was restarted.
func TestHPAwayNode(t *testing.T) {
	t.Parallel()
	const messages, window = 400, 20
	all := gatherHP(t, func(n *node) { n.config.Cluster.DrainTimeout = 0 })
	reader := join(t, all[2].Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(2, "news/#")
	reader.Conn.Close()
	reader.wantForgotten(all[2].Broker)
	p := joinPatient(t, all[0])
	all[2].stop()
	p.publishWindow(t, "news", messages, window)
	if n := all[0].Losses().Total(mesh.LostUnreachable); n != 0 {
		t.Errorf("%d messages are counted as lost", n)
	}
	all[0].stop()
	all[0].start()
	if f := all[0].Links(); f[1].Node != 3 || f[1].Stored != messages {
		t.Errorf("after the restart: %+v", f)
	}
	joinPatient(t, all[0]).publishAll("news/last", 2)
	all[2].start()
	reader = joinPatient(t, all[2], withID("reader"), persistent)
	for i := range messages {
		reader.wantTopic(fmt.Sprint("news/", i))
	}
	reader.wantTopic("news/last")
	all.linked(t)
	if f := all[0].Links(); f[1].Stored != 0 {
		t.Errorf("%d messages are left", f[1].Stored)
	}
}

// publishWindow publishes messages of QoS 1, some of them at a time, which must be acknowledged.
func (d *device) publishWindow(t *testing.T, topic string, messages, window int) {
	t.Helper()
	sent := 0
	send := func() {
		if sent < messages {
			d.Send(d.Message(fmt.Sprint(topic, "/", sent), "x", 1, false))
			sent++
		}
	}
	for range window {
		send()
	}
	for range messages {
		if ack := d.Want(packet.Puback); ack.Reason >= 0x80 {
			t.Fatalf("a message is answered with %#x", ack.Reason)
		}
		send()
	}
}

// TestHPBacklogIsShown: an operator sees for which node another one stores messages, how many, and, before messages are
// refused, that the bound is near.
func TestHPBacklogIsShown(t *testing.T) {
	t.Parallel()
	const bound = 20_000
	all := gatherHP(t, func(n *node) { n.config.Cluster.DrainTimeout, n.config.Cluster.MaxBacklog = 0, bound })
	for _, n := range all {
		if b := n.raftStatus().Backlog; b != nil {
			t.Errorf("node %d waits for %+v", n.at.NodeID, b)
		}
	}
	reader := join(t, all[2].Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "news")
	reader.Conn.Close()
	reader.wantForgotten(all[2].Broker)
	p := joinPatient(t, all[0])
	all[2].stop()
	eventually(t, "the node is waited for", func() bool {
		b := all[0].raftStatus().Backlog
		return len(b) == 1 && b[0] == broker.Backlog{NodeID: 3, Away: true, MaxBytes: bound}
	})
	stored := int64(0)
	for refused := false; !refused; {
		p.Send(p.Message("news", strings.Repeat("x", 1000), 1, false))
		ack := p.Want(packet.Puback)
		if refused = ack.Reason == 0x97; !refused {
			stored++
		}
	}
	b := all[0].raftStatus().Backlog
	if len(b) != 1 || b[0].Messages != stored || b[0].Bytes < bound/5*4 || b[0].Bytes > bound {
		t.Errorf("%d messages were acknowledged, and the backlog is %+v", stored, b)
	}
	eventually(t, "the leader warns", func() bool {
		leader := all.leader()
		return leader != nil && strings.Contains(leader.raftStatus().Warning, "node 1: ") && strings.Contains(leader.raftStatus().Warning, "are stored for node 3")
	})
	all[2].start()
	eventually(t, "no node waits", func() bool {
		return all[0].raftStatus().Backlog == nil && all[1].raftStatus().Backlog == nil && all[2].raftStatus().Backlog == nil
	})
	eventually(t, "the leader warns no more", func() bool {
		leader := all.leader()
		return leader != nil && leader.raftStatus().Warning == ""
	})
}
