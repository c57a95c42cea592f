package embedded

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"signalbox/broker"
	"signalbox/broker/clock"
	"signalbox/broker/dynsec"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// TestHPFeatures checks the properties of messages that are forwarded from node to node.
func TestHPFeatures(t *testing.T) {
	t.Parallel()
	one := clock.New(clock.Machine(), slog.New(slog.DiscardHandler)) // or times would differ by the duration of reading the clocks
	all := gatherHP(t, func(n *node) {
		n.config.Clock, n.config.Times.Links = one, suite.HangLimit // QoS 0 and routes are lost when a link breaks
		n.config.Times.Routes = suite.HangLimit                     // SUBACK does not wait longer until the others know the subscription
	})
	for name, f := range map[string]func(*testing.T, nodes){
		"options of subscriptions": testHPOptions, "properties": testHPProperties, "sizes": testHPSizes,
		"aliases": testHPAliases, "expired": testHPExpired, "rights": testHPRights, "own topics": testHPOwn,
		"old clients": testHPOld, "Wills": testHPWill,
	} {
		t.Run(name, func(t *testing.T) { f(t, all) })
	}
}

// subscribeWith subscribes with options and, unless it is 0, a subscription identifier.
func (d *device) subscribeWith(id uint32, f packet.Filter) {
	d.T.Helper()
	d.PacketID++
	pk := packet.Packet{Type: packet.Subscribe, ID: d.PacketID, Filters: []packet.Filter{f}}
	if id > 0 {
		pk.Properties.SubscriptionIDs = []uint32{id}
	}
	d.Send(pk)
	if codes := d.Want(packet.Suback).Reasons; codes[0] > 2 {
		d.T.Fatalf("SUBACK code %#x", codes[0])
	}
}

func testHPOptions(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.subscribeWith(7, packet.Filter{Filter: "o/#", QoS: 1, NoLocal: true, RetainAsPublished: true})
	d.subscribeWith(8, packet.Filter{Filter: "o/+", QoS: 2, NoLocal: true})
	d.publishAll("o/1", 1)
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	plain := join(t, all[2].Broker, 5, as("dev", "pw"))
	plain.subscribeWith(0, packet.Filter{Filter: "o/#", QoS: 0})
	sure := join(t, all[2].Broker, 5, as("dev", "pw")) // for whom the message is sent again if the link changes its key meanwhile
	sure.subscribeWith(0, packet.Filter{Filter: "o/#", QoS: 2})
	m := other.Message("o/2", "x", 2, true)
	other.Send(m)
	other.Want(packet.Pubrec)
	pk := d.take()
	if pk.Topic != "o/2" || pk.QoS != 2 || !pk.Retain || len(pk.Properties.SubscriptionIDs) != 2 {
		t.Errorf("got %s, QoS %d, retain %v, identifiers %v", pk.Topic, pk.QoS, pk.Retain, pk.Properties.SubscriptionIDs)
	}
	if pk := plain.take(); pk.Topic != "o/2" || pk.QoS != 0 || pk.Retain {
		t.Errorf("got %s, QoS %d, retain %v", pk.Topic, pk.QoS, pk.Retain)
	}
	if pk := sure.take(); pk.Topic != "o/2" || pk.QoS != 2 || pk.Retain {
		t.Errorf("got %s, QoS %d, retain %v", pk.Topic, pk.QoS, pk.Retain)
	}
	if rest := d.Settled(); len(rest) > 0 {
		t.Errorf("got %v, too", rest)
	}
}

func testHPProperties(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.Subscribe(1, "p/#")
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	m := other.Message("p/1", "x", 1, false)
	m.Properties = packet.Properties{
		User: []packet.UserProperty{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}}, ContentType: "text", ResponseTopic: "r/1",
		CorrelationData: []byte{0, 1}, PayloadFormat: new(byte(1)), MessageExpiry: 100,
	}
	other.Send(m)
	other.Want(packet.Puback)
	got := d.take().Properties
	if got.MessageExpiry == 0 || got.MessageExpiry > 100 {
		t.Errorf("it expires in %d s", got.MessageExpiry)
	}
	if len(got.User) != 2 || got.User[1].Value != "2" || got.ContentType != "text" || got.ResponseTopic != "r/1" ||
		!bytes.Equal(got.CorrelationData, []byte{0, 1}) || got.PayloadFormat == nil || *got.PayloadFormat != 1 {
		t.Errorf("got %+v", got)
	}
}

func testHPSizes(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.Subscribe(1, "size/#")
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	for _, size := range []int{0, 1, 63 << 10, 64 << 10, 65 << 10, 1 << 20, all[0].config.MaxPacketSize - 100} {
		payload := bytes.Repeat([]byte{byte(size), 2}, size)[:size]
		topic := fmt.Sprint("size/", size)
		eventually(t, "it is acknowledged", func() bool { // a busy machine may not commit a retained message in time
			other.Send(other.Message(topic, string(payload), 1, size > 0))
			return other.Want(packet.Puback).Reason == 0
		})
		pk := d.take()
		for pk.Topic != topic { // an earlier one was repeated, because it was not acknowledged in time
			pk = d.take()
		}
		if !bytes.Equal(pk.Payload, payload) {
			t.Errorf("%d bytes arrived as %d", size, len(pk.Payload))
		}
	}
}

func testHPAliases(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.Subscribe(1, "alias/#") // QoS 0 is lost when a link between the nodes breaks
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	for _, topic := range []string{"alias/1", ""} {
		m := other.Message(topic, "x", 1, false)
		m.Properties.TopicAlias = 3
		other.Send(m)
		other.Want(packet.Puback)
		if pk := d.take(); pk.Topic != "alias/1" {
			t.Errorf("got %q", pk.Topic)
		}
	}
}

// testHPExpired lets a message expire while its receiver is not connected.
func testHPExpired(t *testing.T, all nodes) {
	id := withID("sleeper")
	d := join(t, all[0].Broker, 5, as("dev", "pw"), id, persistent)
	d.Subscribe(1, "e/#")
	d.Conn.Close()
	d.wantForgotten(all[0].Broker)
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	for topic, expiry := range map[string]uint32{"e/short": 1, "e/long": 100} {
		m := other.Message(topic, "x", 1, false)
		m.Properties.MessageExpiry = expiry
		other.Send(m)
		other.Want(packet.Puback)
	}
	after := join(t, all[1].Broker, 5, as("dev", "pw"))
	after.Subscribe(0, "e/#")
	began := all[0].now()
	eventually(t, "two seconds are over", func() bool { return all[0].now().Sub(began).Seconds() > 2 })
	d = dial(t, all[0].Broker, 5)
	if ack := d.SendConnect(as("dev", "pw"), id, persistent); !ack.Present {
		t.Fatal("there is no session")
	}
	if pk := d.take(); pk.Topic != "e/long" || pk.Properties.MessageExpiry > 98 {
		t.Errorf("got %s, which expires in %d s", pk.Topic, pk.Properties.MessageExpiry)
	}
	if rest := d.Settled(); len(rest) > 0 {
		t.Errorf("got %v, too", rest)
	}
}

// testHPRights revokes rights at one node of a client at another one.
func testHPRights(t *testing.T, all nodes) {
	allow(t, all[0].Broker, "guest", everything()...)
	eventually(t, "all nodes know of a client", func() bool {
		_, err := all[2].GetClient(t.Context(), "guest")
		return err == nil
	})
	d := join(t, all[2].Broker, 5, as("guest", "pw"))
	d.Subscribe(1, "rights/#")
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	other.publishAll("rights/1", 1)
	d.wantTopic("rights/1")
	secret := broker.ACL{ACLType: broker.PublishClientReceive, Topic: "rights/secret", Priority: 10}
	if err := all[1].ModifyRole(t.Context(), broker.RoleSpec{RoleName: "role of guest", ACLs: append(everything(), secret)}); err != nil {
		t.Fatal(err)
	}
	if pk := d.Want(packet.Disconnect); pk.Reason != 0x98 {
		t.Errorf("cut off with %#x", pk.Reason)
	}
	d = join(t, all[2].Broker, 5, as("guest", "pw"))
	d.Subscribe(1, "rights/#")
	other.publishAll("rights/secret", 1)
	other.publishAll("rights/2", 1)
	d.wantTopic("rights/2")
}

// testHPOwn: a node's $SYS messages, and responses to requests, are not forwarded.
func testHPOwn(t *testing.T, all nodes) {
	before := all[1].routesOf(1) // others may have left sessions
	watcher := admin(t, all[0].Broker, 5)
	watcher.Subscribe(0, "$SYS/#", "$share/g/$SYS/#")
	watcher.Settled()
	asker := admin(t, all[1].Broker, 5)
	asker.Send(asker.Message(dynsec.Topic, `{"commands":[{"command":"getDefaultACLAccess"}]}`, 0, false))
	asker.Want(packet.Publish)
	for _, topic := range watcher.Settled() {
		if topic == dynsec.ResponseTopic {
			t.Error("an answer went to another node")
		}
	}
	if n := all[1].routesOf(1); n > before {
		t.Errorf("%d routes of a node that only asks for its own, %d before", n, before)
	}
}

// routesOf returns the number of filters with a subscriber at another node.
func (n *node) routesOf(id int) int {
	for _, f := range n.cluster.peering.Load().mesh.Figures() {
		if f.Node == id {
			return f.Routes
		}
	}
	return 0
}

// testHPOld exchanges messages between clients of MQTT 3.1.1 and 5.
func testHPOld(t *testing.T, all nodes) {
	old, young := join(t, all[0].Broker, 4, as("dev", "pw")), join(t, all[1].Broker, 5, as("dev", "pw"))
	old.Subscribe(2, "to/old")
	young.Subscribe(2, "to/young")
	old.publishAll("to/young", 2)
	young.wantTopic("to/young")
	join(t, all[2].Broker, 5, as("dev", "pw")).publishAll("to/old", 2)
	old.wantTopic("to/old")
}

// testHPWill expects the Will of a client at one node at another one.
func testHPWill(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.Subscribe(1, "will/#")
	join(t, all[1].Broker, 5, as("dev", "pw"), withWill("will/1", "x"), willAtQoS1).Conn.Close()
	d.wantTopic("will/1")
}
