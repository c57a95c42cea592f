package embedded

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker"
	"signalbox/broker/clock"
	"signalbox/broker/dynsec"
	"signalbox/scripts/suite"
)

// TestHPFeatures checks the properties of messages that are forwarded from node to node.
func TestHPFeatures(t *testing.T) {
	t.Parallel()
	one := clock.New(clock.Machine(), slog.New(slog.DiscardHandler))                                  // or times would differ by the duration of reading the clocks
	all := gatherHP(t, func(n *node) { n.config.Clock, n.config.Times.Links = one, suite.HangLimit }) // QoS 0 and routes are lost when a link breaks
	for name, f := range map[string]func(*testing.T, nodes){
		"options of subscriptions": testHPOptions, "properties": testHPProperties, "sizes": testHPSizes,
		"aliases": testHPAliases, "expired": testHPExpired, "rights": testHPRights, "own topics": testHPOwn,
		"old clients": testHPOld, "Wills": testHPWill,
	} {
		t.Run(name, func(t *testing.T) { f(t, all) })
	}
}

// subscribeTo subscribes with options.
func (d *device) subscribeTo(s packets.Subscription) {
	d.t.Helper()
	d.id++
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: d.id, Filters: packets.Subscriptions{s}}
	if s.Identifier > 0 {
		pk.Properties.SubscriptionIdentifier = []int{s.Identifier}
	}
	d.send(pk)
	if codes := d.want(packets.Suback).ReasonCodes; codes[0] > 2 {
		d.t.Fatalf("SUBACK code %#x", codes[0])
	}
}

func testHPOptions(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.subscribeTo(packets.Subscription{Filter: "o/#", Qos: 1, NoLocal: true, Identifier: 7, RetainAsPublished: true})
	d.subscribeTo(packets.Subscription{Filter: "o/+", Qos: 2, NoLocal: true, Identifier: 8})
	d.publishAll("o/1", 1)
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	plain := join(t, all[2].Broker, 5, as("dev", "pw"))
	plain.subscribeTo(packets.Subscription{Filter: "o/#", Qos: 0})
	m := other.message("o/2", "x", 2, true)
	other.send(m)
	other.want(packets.Pubrec)
	pk := d.take()
	if pk.TopicName != "o/2" || pk.FixedHeader.Qos != 2 || !pk.FixedHeader.Retain || len(pk.Properties.SubscriptionIdentifier) != 2 {
		t.Errorf("got %s, QoS %d, retain %v, identifiers %v", pk.TopicName, pk.FixedHeader.Qos, pk.FixedHeader.Retain, pk.Properties.SubscriptionIdentifier)
	}
	if pk := plain.take(); pk.TopicName != "o/2" || pk.FixedHeader.Qos != 0 || pk.FixedHeader.Retain {
		t.Errorf("got %s, QoS %d, retain %v", pk.TopicName, pk.FixedHeader.Qos, pk.FixedHeader.Retain)
	}
	if rest := d.settled(); len(rest) > 0 {
		t.Errorf("got %v, too", rest)
	}
}

func testHPProperties(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.subscribe(1, "p/#")
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	m := other.message("p/1", "x", 1, false)
	m.Properties = packets.Properties{
		User: []packets.UserProperty{{Key: "a", Val: "1"}, {Key: "a", Val: "2"}}, ContentType: "text", ResponseTopic: "r/1",
		CorrelationData: []byte{0, 1}, PayloadFormat: 1, PayloadFormatFlag: true, MessageExpiryInterval: 100,
	}
	other.send(m)
	other.want(packets.Puback)
	got := d.take().Properties
	if got.MessageExpiryInterval == 0 || got.MessageExpiryInterval > 100 {
		t.Errorf("it expires in %d s", got.MessageExpiryInterval)
	}
	if len(got.User) != 2 || got.User[1].Val != "2" || got.ContentType != "text" || got.ResponseTopic != "r/1" ||
		!bytes.Equal(got.CorrelationData, []byte{0, 1}) || got.PayloadFormat != 1 {
		t.Errorf("got %+v", got)
	}
}

func testHPSizes(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.subscribe(1, "size/#")
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	for _, size := range []int{0, 1, 63 << 10, 64 << 10, 65 << 10, 1 << 20, all[0].config.MaxPacketSize - 100} {
		payload := bytes.Repeat([]byte{byte(size), 2}, size)[:size]
		topic := fmt.Sprint("size/", size)
		eventually(t, "it is acknowledged", func() bool { // a busy machine may not commit a retained message in time
			other.send(other.message(topic, string(payload), 1, size > 0))
			return other.want(packets.Puback).ReasonCode == 0
		})
		pk := d.take()
		for pk.TopicName != topic { // an earlier one was repeated, because it was not acknowledged in time
			pk = d.take()
		}
		if !bytes.Equal(pk.Payload, payload) {
			t.Errorf("%d bytes arrived as %d", size, len(pk.Payload))
		}
	}
}

func testHPAliases(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.subscribe(1, "alias/#") // QoS 0 is lost when a link between the nodes breaks
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	for _, topic := range []string{"alias/1", ""} {
		m := other.message(topic, "x", 1, false)
		m.Properties.TopicAlias, m.Properties.TopicAliasFlag = 3, true
		other.send(m)
		other.want(packets.Puback)
		if pk := d.take(); pk.TopicName != "alias/1" {
			t.Errorf("got %q", pk.TopicName)
		}
	}
}

// testHPExpired lets a message expire while its receiver is not connected.
func testHPExpired(t *testing.T, all nodes) {
	id := withID("sleeper")
	d := join(t, all[0].Broker, 5, as("dev", "pw"), id, persistent)
	d.subscribe(1, "e/#")
	d.conn.Close()
	d.wantForgotten(all[0].Broker)
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	for topic, expiry := range map[string]uint32{"e/short": 1, "e/long": 100} {
		m := other.message(topic, "x", 1, false)
		m.Properties.MessageExpiryInterval = expiry
		other.send(m)
		other.want(packets.Puback)
	}
	after := join(t, all[1].Broker, 5, as("dev", "pw"))
	after.subscribe(0, "e/#")
	began := all[0].now()
	eventually(t, "two seconds are over", func() bool { return all[0].now().Sub(began).Seconds() > 2 })
	d = dial(t, all[0].Broker, 5)
	if ack := d.sendConnect(as("dev", "pw"), id, persistent); !ack.SessionPresent {
		t.Fatal("there is no session")
	}
	if pk := d.take(); pk.TopicName != "e/long" || pk.Properties.MessageExpiryInterval > 98 {
		t.Errorf("got %s, which expires in %d s", pk.TopicName, pk.Properties.MessageExpiryInterval)
	}
	if rest := d.settled(); len(rest) > 0 {
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
	d.subscribe(1, "rights/#")
	other := join(t, all[1].Broker, 5, as("dev", "pw"))
	other.publishAll("rights/1", 1)
	d.wantTopic("rights/1")
	secret := broker.ACL{ACLType: broker.PublishClientReceive, Topic: "rights/secret", Priority: 10}
	if err := all[1].ModifyRole(t.Context(), broker.RoleSpec{RoleName: "role of guest", ACLs: append(everything(), secret)}); err != nil {
		t.Fatal(err)
	}
	if pk := d.want(packets.Disconnect); pk.ReasonCode != 0x98 {
		t.Errorf("cut off with %#x", pk.ReasonCode)
	}
	d = join(t, all[2].Broker, 5, as("guest", "pw"))
	d.subscribe(1, "rights/#")
	other.publishAll("rights/secret", 1)
	other.publishAll("rights/2", 1)
	d.wantTopic("rights/2")
}

// testHPOwn: a node's $SYS messages, and responses to requests, are not forwarded.
func testHPOwn(t *testing.T, all nodes) {
	before := all[1].routesOf(1) // others may have left sessions
	watcher := admin(t, all[0].Broker, 5)
	watcher.subscribe(0, "$SYS/#", "$share/g/$SYS/#")
	watcher.settled()
	asker := admin(t, all[1].Broker, 5)
	asker.send(asker.message(dynsec.Topic, `{"commands":[{"command":"getDefaultACLAccess"}]}`, 0, false))
	asker.want(packets.Publish)
	for _, topic := range watcher.settled() {
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
	old.subscribe(2, "to/old")
	young.subscribe(2, "to/young")
	old.publishAll("to/young", 2)
	young.wantTopic("to/young")
	join(t, all[2].Broker, 5, as("dev", "pw")).publishAll("to/old", 2)
	old.wantTopic("to/old")
}

// testHPWill expects the Will of a client at one node at another one.
func testHPWill(t *testing.T, all nodes) {
	d := join(t, all[0].Broker, 5, as("dev", "pw"))
	d.subscribe(1, "will/#")
	join(t, all[1].Broker, 5, as("dev", "pw"), withWill("will/1", "x"), willAtQoS1).conn.Close()
	d.wantTopic("will/1")
}
