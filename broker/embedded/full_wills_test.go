package embedded

import (
	"fmt"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker"
	"signalbox/broker/control"
)

// TestFullHandsOver moves the leadership, and expects at the new leader what clients left
// at the first: Wills, delayed ones, a shared subscription, what was cleared, what is half
// acknowledged.
func TestFullHandsOver(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "full", func(first *node) {
		allow(t, first.Broker, "dev", append(everything(), acl(broker.SubscribePattern, "$share/work/#", true))...)
	})
	first := all.serving(t)
	next := all.others(first)[0]
	login := as("dev", "pw")

	watcher := join(t, first.Broker, 5, login, withID("watcher"), persistent)
	watcher.subscribe(1, "will/#")
	worker := join(t, first.Broker, 5, login, withID("worker"), persistent)
	worker.subscribe(1, "$share/work/work/#")
	worker.conn.Close()
	worker.wantForgotten(first.Broker)
	half := join(t, first.Broker, 5, login, withID("half"), persistent)
	half.subscribe(2, "half")
	publisher := join(t, first.Broker, 5, login)
	for _, payload := range []string{"kept", ""} {
		publisher.send(publisher.message("retained", payload, 1, true))
		publisher.want(packets.Puback)
	}
	publisher.publish("work/1", "x", 1)
	if code := publisher.publish("half", "x", 2).ReasonCode; code != 0 {
		t.Fatalf("PUBREC code %#x", code)
	}
	pk := half.want(packets.Publish)
	half.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrec}, PacketID: pk.PacketID})
	half.want(packets.Pubrel)

	delay := func(seconds uint32) connectOption {
		return func(pk *packets.Packet) { pk.Connect.WillProperties.WillDelayInterval = seconds }
	}
	join(t, first.Broker, 5, login, withID("at once"), persistent, withWill("will/at once", "x"), willAtQoS1)
	join(t, first.Broker, 5, login, withID("delayed"), persistent, withWill("will/delayed", "x"), willAtQoS1, delay(2))
	join(t, first.Broker, 5, login, withID("back"), persistent, withWill("will/back", "x"), willAtQoS1, delay(3))

	first.ask(control.SetLeader("plant", next.at.NodeID), nil)
	if end := watcher.want(packets.Disconnect); end.ReasonCode != 0x9c {
		t.Errorf("DISCONNECT code %#x", end.ReasonCode)
	}
	if all.serving(t) != next {
		t.Fatal("the other node does not serve")
	}
	join(t, next.Broker, 5, login, withID("back"), persistent)
	again := func(id string, clean bool) *device {
		t.Helper()
		d := dial(t, next.Broker, 5)
		ack := d.sendConnect(login, withID(id), persistent, func(pk *packets.Packet) { pk.Connect.Clean = clean })
		if ack.SessionPresent == clean {
			t.Errorf("%s: session present: %t", id, ack.SessionPresent)
		}
		return d
	}
	watcher = again("watcher", false)
	for _, want := range []string{"will/at once", "will/delayed"} {
		if pk := watcher.want(packets.Publish); pk.TopicName != want {
			t.Errorf("got %s, want %s", pk.TopicName, want)
		}
	}
	if pk := again("worker", false).want(packets.Publish); pk.TopicName != "work/1" {
		t.Errorf("the worker got %s", pk.TopicName)
	}
	half = again("half", false)
	if rel := half.want(packets.Pubrel); rel.PacketID != pk.PacketID {
		t.Errorf("PUBREL of %d, want %d", rel.PacketID, pk.PacketID)
	}
	newcomer := join(t, next.Broker, 5, login)
	newcomer.subscribe(1, "retained")
	if got := newcomer.settled(); len(got) > 0 {
		t.Errorf("retained: %v", got)
	}
	again("worker", true)
	next.ask(control.SetLeader("plant", first.at.NodeID), nil)
	eventually(t, "the first serves again", func() bool { return first.open(0) })
	d := dial(t, first.Broker, 5)
	if ack := d.sendConnect(login, withID("worker"), persistent); !ack.SessionPresent {
		t.Error("the new session does not exist")
	}
	if got := d.settled(); len(got) > 0 {
		t.Errorf("the new session has %v", got)
	}
}

// TestFullWillsAtClose closes a leader: the Wills of its clients are published, also of
// those with clean sessions, and the next leader has all of them.
func TestFullWillsAtClose(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 2, "full", func(first *node) { allow(t, first.Broker, "dev", everything()...) })
	first := all.serving(t)
	watcher := join(t, first.Broker, 5, as("dev", "pw"), withID("watcher"), persistent)
	watcher.subscribe(1, "will/#")
	watcher.conn.Close()
	watcher.wantForgotten(first.Broker)
	want := map[string]bool{}
	for i := range 50 {
		topic := fmt.Sprint("will/", i)
		join(t, first.Broker, 5, as("dev", "pw"), withWill(topic, "x"), willAtQoS1)
		want[topic] = true
	}
	first.stop()
	first.start()
	next := all.serving(t)
	d := dial(t, next.Broker, 5)
	d.sendConnect(as("dev", "pw"), withID("watcher"), persistent, func(pk *packets.Packet) {
		pk.Properties.ReceiveMaximum = 100
	})
	for len(want) > 0 {
		pk := d.want(packets.Publish)
		if !want[pk.TopicName] {
			t.Errorf("got %s, or got it twice", pk.TopicName)
		}
		delete(want, pk.TopicName)
		d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: pk.PacketID})
	}
}
