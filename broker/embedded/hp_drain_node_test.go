package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestHPDrainNode drains the leader while clients publish and receive, and while sessions of clients
// that are away wait there: nothing is lost, no client waits long for another node, and the node takes
// part in the cluster all the time. Afterwards it accepts clients again.
func TestHPDrainNode(t *testing.T) {
	t.Parallel()
	all := gatherHP(t, unhurried, func(n *node) { n.config.Cluster.ClientAddress = fmt.Sprintf("node-%d.example:1883", n.at.NodeID) })
	drained, others := all[1], nodes{all[0], all[2]}
	eventually(t, "the node leads that will be drained", func() bool {
		all.leading(t).AskHA(t.Context(), control.SetLeader("plant", 2), nil) //nolint:errcheck // tried again
		return drained.cluster.node.IsLeader()
	})
	const away = 30
	for i := range away {
		d := join(t, drained.Broker, 5, as("dev", "pw"), withID(fmt.Sprintf("away %d", i)), persistent)
		d.Subscribe(1, "news/#")
		d.Conn.Close()
		d.wantForgotten(drained.Broker)
	}
	old := join(t, drained.Broker, 4, as("dev", "pw"))
	operator := admin(t, drained.Broker, 5)
	l := roamAround(t, nodes{drained, all[0], all[2]})
	l.awaitMore(20)

	drained.ask(control.DrainNode("plant"), nil)
	if rest, err := old.Next(); err == nil {
		t.Errorf("a client of MQTT 3.1.1 got %v", rest)
	}
	eventually(t, "the node has no sessions", func() bool {
		s := drained.raftStatus()
		return s.Drained && s.SessionsLeft == 0 && s.State == 1
	})
	l.awaitMore(20)
	refused := dial(t, drained.Broker, 5)
	if ack := refused.SendConnect(as("dev", "pw")); ack.Reason != 0x9c || ack.Properties.ServerReference != "node-1.example:1883 node-3.example:1883" {
		t.Errorf("MQTT 5: CONNACK code %#x, server reference %q", ack.Reason, ack.Properties.ServerReference)
	}
	if ack := dial(t, drained.Broker, 4).SendConnect(as("dev", "pw")); ack.Reason != 3 {
		t.Errorf("MQTT 3.1.1: CONNACK code %d", ack.Reason)
	}
	all[0].ask(control.DrainNode("plant"), nil)
	err := all[2].AskHA(t.Context(), control.DrainNode("plant"), nil)
	if broker.KindOf(err) != broker.Conflict || !errors.Is(err, control.ErrNoOther) || all[2].raftStatus().Drained {
		t.Errorf("the last node: %v", err)
	}
	eventually(t, "the last node leads", func() bool { return all[2].cluster.node.IsLeader() && drained.raftStatus().SessionsLeft == 0 })
	l.awaitMore(20)

	admin(t, drained.Broker, 5).Conn.Close()
	operator.wantResponse(control.UndrainNode("plant"))
	for _, n := range all[:2] {
		n.ask(control.UndrainNode("plant"), nil) // of the second one, without effect
		if s := n.raftStatus(); s.Drained {
			t.Error("a node is still drained")
		}
		join(t, n.Broker, 5, as("dev", "pw")).Conn.Close()
	}
	l.stop(2 * time.Second)
	for i := range away {
		next := dial(t, others[i%2].Broker, 5)
		if ack := next.SendConnect(as("dev", "pw"), withID(fmt.Sprintf("away %d", i)), persistent); ack.Reason != 0 || !ack.Present {
			t.Fatalf("CONNACK code %d, session present %v", ack.Reason, ack.Present)
		}
		l.wantAll(next)
	}
}

// wantResponse sends a command about clusters, and checks that it succeeds.
func (d *device) wantResponse(c control.HACommand) {
	d.T.Helper()
	d.Send(d.Message(control.HATopic, string(c.Encode("x")), 0, false))
	pk := d.Want(packet.Publish)
	if err := control.ReadHA(c, pk.Payload, "x", nil); err != nil {
		d.T.Errorf("%s: %v", c.Name(), err)
	}
}

// raftStatus returns the status of the node.
func (n *node) raftStatus() (s control.HAStatus) {
	n.t.Helper()
	n.ask(control.GetRaftStatus(), &s)
	return s
}

// roamingLoad is two publishers and two subscribers that connect to any node that accepts them.
type roamingLoad struct {
	t                       *testing.T
	publishers, subscribers []*roamingClient
	endWriting, endReading  context.CancelFunc
	writers, readers        sync.WaitGroup
}

// roamAround starts a load, at first at the first of the nodes.
func roamAround(t *testing.T, all nodes) *roamingLoad {
	l := &roamingLoad{t: t}
	for i := range 2 {
		r := newRoamer(t, all, fmt.Sprint("reader ", i))
		d := join(t, all[0].Broker, 5, as("dev", "pw"), withID(r.ID), persistent)
		d.Subscribe(byte(1+i), "news/#")
		d.Conn.Close()
		r.known = true
		l.subscribers, l.publishers = append(l.subscribers, r), append(l.publishers, newRoamer(t, all, fmt.Sprint("writer ", i)))
	}
	writing, endWriting := context.WithCancel(t.Context())
	reading, endReading := context.WithCancel(t.Context())
	l.endWriting, l.endReading = endWriting, endReading
	for i := range 2 {
		l.writers.Go(func() {
			l.publishers[i].roam(writing, func() error { return l.publishers[i].publishNext(byte(1 + i)) })
		})
		l.readers.Go(func() { l.subscribers[i].roam(reading, l.subscribers[i].receive) })
	}
	t.Cleanup(func() {
		endWriting()
		endReading()
		l.writers.Wait()
		l.readers.Wait()
	})
	return l
}

// awaitMore waits until each publisher has published more messages.
func (l *roamingLoad) awaitMore(messages int64) {
	l.t.Helper()
	for _, p := range l.publishers {
		from := p.count.Load()
		eventually(l.t, "messages are published", func() bool { return p.count.Load() >= from+messages })
	}
}

// stop ends the load, and checks that the subscribers have received everything, what was published at
// QoS 2 once, that no session was lost and that no client waited longer than that for a node.
func (l *roamingLoad) stop(longest time.Duration) {
	l.t.Helper()
	l.endWriting()
	l.writers.Wait()
	for _, r := range l.subscribers {
		r.awaitAll(l.publishers)
	}
	l.endReading()
	l.readers.Wait()
	for payload, n := range l.subscribers[1].times() {
		if n > 1 && strings.HasPrefix(payload, l.publishers[1].ID) {
			l.t.Errorf("%q was received %d times at QoS 2", payload, n)
		}
	}
	for _, c := range append(l.publishers, l.subscribers...) {
		l.t.Logf("%s: %d messages, at most %v without a connection", c.ID, c.count.Load(), c.waited)
		if c.lost > 0 || c.waited > longest {
			l.t.Errorf("%s lost its session %d times, and waited %v for another node", c.ID, c.lost, c.waited)
		}
	}
}

// wantAll receives what was queued for a client: all that was published.
func (l *roamingLoad) wantAll(d *device) {
	l.t.Helper()
	got := map[string]bool{}
	want := int(l.publishers[0].count.Load() + l.publishers[1].count.Load())
	for len(got) < want {
		pk := d.Want(packet.Publish)
		got[string(pk.Payload)] = true
		d.Send(packet.Packet{Type: packet.Puback, ID: pk.ID})
	}
	d.Conn.Close()
}

// TestFullDrainNode drains the node that serves the clients: another one does, with their sessions,
// and the drained one does not lead again. That ends with a restart.
func TestFullDrainNode(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) })
	drained := all.serving(t)
	reader := join(t, drained.Broker, 5, as("dev", "pw"), withID("reader"), persistent)
	reader.Subscribe(1, "news/#")
	drained.ask(control.DrainNode("plant"), nil)
	if pk := reader.Want(packet.Disconnect); pk.Reason != 0x9c {
		t.Errorf("DISCONNECT code %#x", pk.Reason)
	}
	next := all.serving(t)
	if s := drained.raftStatus(); next == drained || !s.Drained || s.SessionsLeft != 0 {
		t.Errorf("node %d serves, and the status is %+v", next.at.NodeID, s)
	}
	again := dial(t, next.Broker, 5)
	if ack := again.SendConnect(as("dev", "pw"), withID("reader"), persistent); ack.Reason != 0 || !ack.Present {
		t.Errorf("CONNACK code %d, session present %v", ack.Reason, ack.Present)
	}
	join(t, next.Broker, 5, as("dev", "pw")).publishAll("news/1", 1)
	again.wantTopic("news/1")

	next.ask(control.SetLeader("plant", drained.at.NodeID), nil)
	eventually(t, "the drained node hands over the leadership again", func() bool {
		leader := all.leader()
		return leader != nil && leader != drained && leader.open(0) && leader.leads()
	})
	drained.stop()
	drained.start()
	if s := drained.raftStatus(); s.Drained {
		t.Error("the node is drained after a restart")
	}
}

// TestDrainNodeWithoutSessionsInCommon refuses to drain a node whose sessions cannot be moved.
func TestDrainNodeWithoutSessionsInCommon(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "dynsec", func(*node) {})
	for name, want := range map[string]error{"plant": control.ErrNoDrain, "other": control.ErrClusterName} {
		if err := all[0].AskHA(t.Context(), control.DrainNode(name), nil); !errors.Is(err, want) {
			t.Errorf("cluster %s: %v", name, err)
		}
	}
	if err := startNode(t, 3).AskHA(t.Context(), control.DrainNode("plant"), nil); !errors.Is(err, control.ErrNoCluster) {
		t.Errorf("without a cluster: %v", err)
	}
}

// TestHPDrainMovesWills stops a node that has the session of a client whose Will is not due. Another
// node publishes it when the delay has passed, once.
func TestHPDrainMovesWills(t *testing.T) {
	t.Parallel()
	const delay = 3
	all := gatherHP(t, unhurried)
	watcher := join(t, all[2].Broker, 5, as("dev", "pw"))
	watcher.Subscribe(1, "wills/#")
	c := join(t, all[0].Broker, 5, as("dev", "pw"), withID("c"), persistent, withWill("wills/c", "gone"), func(pk *packet.Packet) {
		pk.Connect.Will.QoS, pk.Connect.Will.Properties.WillDelay = 1, delay
	})
	began := time.Now()
	c.Conn.Close()
	c.wantForgotten(all[0].Broker)
	all[0].stop()
	if pk := watcher.Want(packet.Publish); pk.Topic != "wills/c" || string(pk.Payload) != "gone" {
		t.Errorf("got %s: %s", pk.Topic, pk.Payload)
	}
	if after := time.Since(began); after < delay*time.Second-100*time.Millisecond {
		t.Errorf("the Will was published after %v", after)
	}
	all[0].start()
	eventually(t, "all nodes are there", all.areAll)
	all.linked(t)
	if rest := watcher.Settled(); len(rest) > 0 {
		t.Errorf("more was published: %v", rest)
	}
}
