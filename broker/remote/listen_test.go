package remote

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	mqttpacket "signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// listened records what a listener is passed.
type listened struct {
	mu       sync.Mutex
	messages []broker.ReceivedMessage
}

// listen listens for messages until the end of the test.
func listen(t *testing.T, b *Broker, filters ...string) (*listened, broker.Feed) {
	t.Helper()
	l := &listened{}
	f, err := b.Listen(t.Context(), filters, func(p broker.PublishedMessage) {
		m := broker.ReceivedMessage{Topic: p.Topic, Payload: string(p.Payload), QoS: int(p.QoS), Retain: p.Retain, Omitted: p.Omitted}
		if p.Properties != nil {
			m.Properties = p.Properties()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.messages = append(l.messages, m)
	})
	must(t, err)
	t.Cleanup(f.Stop)
	return l, f
}

// list returns the messages so far.
func (l *listened) list() []broker.ReceivedMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.messages)
}

// want waits for exactly these messages.
func (l *listened) want(t *testing.T, want ...broker.ReceivedMessage) {
	t.Helper()
	brokertest.WaitFor(t, fmt.Sprintf("%d messages have arrived", len(want)), func() bool { return len(l.list()) >= len(want) })
	if diff := cmp.Diff(want, l.list()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// join connects a client with the rights of the server's admin.
func join(t *testing.T, server *brokertest.Server) *mqtttest.Client {
	t.Helper()
	c := mqtttest.Dial(t, server.URL, nil, mqttpacket.V5)
	c.Connect(mqtttest.As(server.AdminUsername, string(server.AdminPassword)))
	return c
}

// withProperties sets properties of every kind.
func withProperties(pk *mqttpacket.Packet) {
	text := byte(1)
	pk.Properties = mqttpacket.Properties{PayloadFormat: &text, MessageExpiry: 3600, ContentType: "text/plain", ResponseTopic: "answers",
		CorrelationData: []byte{0, 0xff}, User: []mqttpacket.UserProperty{{Name: "unit", Value: "kW"}, {Name: "unit", Value: "Zähler"}}}
}

// TestListen has the properties and RETAIN of messages as they are published, and none of those
// that were retained before.
func TestListen(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	publisher := join(t, server)
	publisher.Publish("plant/1", "before", 1, mqtttest.Retained)
	l, _ := listen(t, connected(t, server.Target()), "plant/+")
	publisher.Publish("plant/1", "full", 1, withProperties, mqtttest.Retained)
	publisher.Publish("plant/2", "plain", 1)
	publisher.Publish("plant/2", "expires", 1, func(pk *mqttpacket.Packet) { pk.Properties.MessageExpiry = 60 })
	l.want(t, broker.ReceivedMessage{Topic: "plant/1", Payload: "full", Retain: true, Properties: &broker.PublishedProperties{
		MessageProperties: broker.MessageProperties{PayloadFormat: 1, ContentType: "text/plain", ResponseTopic: "answers", CorrelationData: "AP8=",
			UserProperties: []broker.UserProperty{{Name: "unit", Value: "kW"}, {Name: "unit", Value: "Zähler"}}}, Expiry: 3600}},
		broker.ReceivedMessage{Topic: "plant/2", Payload: "plain"},
		broker.ReceivedMessage{Topic: "plant/2", Payload: "expires", Properties: &broker.PublishedProperties{Expiry: 60}})
}

// TestListenOverMQTT311 listens to a Mosquitto behind a proxy that supports MQTT 3.1.1 only.
func TestListenOverMQTT311(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		t.Run(fmt.Sprint("closes=", closes), func(t *testing.T) {
			t.Parallel()
			server := brokertest.Mosquitto(t)
			target := withTree(server.Target())
			target.URL = "mqtt://" + brokertest.Only311(t, server.Addr, closes)
			publisher := join(t, server)
			publisher.Publish("plant/1", "before", 1, mqtttest.Retained)
			b := connected(t, target)
			for range 2 {
				l, f := listen(t, b, "plant/+")
				publisher.Publish("plant/1", "now", 1, withProperties, mqtttest.Retained)
				l.want(t, broker.ReceivedMessage{Topic: "plant/1", Payload: "now"})
				f.Stop()
			}
			topicsOf(t, b)
			publisher.Publish("plant/1", "now", 1)
			waitForTopic(t, b, "plant/1")
		})
	}
}

// TestListenToABrokerOfMQTT311 falls back at once.
func TestListenToABrokerOfMQTT311(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		server := &scripted{answers: onlyDynsec, closes: closes, retains: []*packets.PublishPacket{message("a", true), message("b", false)}}
		b := connected(t, server.serve(t))
		l, _ := listen(t, b, "#")
		l.want(t, broker.ReceivedMessage{Topic: "b", Payload: "x"})
		want := int64(1)
		if closes { // once may be chance
			want = 2
		}
		if got := server.refused.Load(); got != want {
			t.Errorf("MQTT 5 was tried %d times, want %d", got, want)
		}
	}
}

// TestListenToHostileProperties receives properties that no good broker sends.
func TestListenToHostileProperties(t *testing.T) {
	t.Parallel()
	user := func(name, value string) []byte { return pair(0x26, name, value) }
	contentType := append([]byte{3}, textOf("text/plain")...)
	server := &scripted{answers: onlyDynsec, published: [][]byte{
		slices.Concat(contentType, user("\xff", "v"), user("after", "v")),
		slices.Concat(contentType, contentType),
		slices.Concat(contentType, []byte{1, 9}),
		append([]byte{8}, textOf("a/#")...),
		slices.Concat(contentType, pair(0x26, "markup", "<b>\x00")),
		user("long", strings.Repeat("v", 65535)),
		slices.Repeat(user("many", "v"), 1000),
		{0x26, 0xff, 0xff, 'x'}, // ends the connection: it is malformed
		contentType,
	}}
	b := connected(t, server.serve(t))
	l, f := listen(t, b, "a")
	select {
	case <-f.Lost():
	case <-time.After(suite.HangLimit):
		t.Error("a malformed packet does not end the connection")
	}
	m := func(p *broker.PublishedProperties) broker.ReceivedMessage {
		return broker.ReceivedMessage{Topic: "a", Payload: "x", Properties: p, Omitted: p == nil}
	}
	plain := &broker.PublishedProperties{MessageProperties: broker.MessageProperties{ContentType: "text/plain"}}
	l.want(t, m(plain), m(plain), m(plain), m(&broker.PublishedProperties{}), m(plain), m(nil), m(nil))
	must(t, b.Ready(t.Context()))
}

// textOf encodes a text of MQTT.
func textOf(text string) []byte {
	return append([]byte{byte(len(text) >> 8), byte(len(text))}, text...)
}

// pair encodes a property of two texts.
func pair(id byte, name, value string) []byte {
	return slices.Concat([]byte{id}, textOf(name), textOf(value))
}

// TestListenIsRefused names the filter that the broker refuses.
func TestListenIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range [][][]byte{nil, {}} {
		server := &scripted{answers: onlyDynsec, refuse: []string{"secret/#"}, published: raw}
		b := connected(t, server.serve(t))
		_, err := b.Listen(t.Context(), []string{"a", "secret/#"}, func(broker.PublishedMessage) {})
		if e := wantKind(t, err, broker.Denied); e.Op != opListen || !strings.Contains(e.Msg, `"secret/#"`) {
			t.Errorf("%s: %s", e.Op, e.Msg)
		}
	}
}
