package apitest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
)

// received returns the message of an event.
func received(t *testing.T, data string) (m broker.ReceivedMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return m
}

// withProperties sets properties of MQTT 5.
func withProperties(unit string) mqtttest.Option {
	return func(pk *packet.Packet) {
		text := byte(1)
		pk.Properties = packet.Properties{PayloadFormat: &text, MessageExpiry: 600, ContentType: "text/plain", ResponseTopic: "r",
			CorrelationData: []byte{1}, User: []packet.UserProperty{{Name: "unit", Value: unit}}}
	}
}

// checkProperties checks the properties of the messages that TestListenMessages publishes.
func checkProperties(t *testing.T, name string, m broker.ReceivedMessage) {
	t.Helper()
	want := &broker.PublishedProperties{MessageProperties: broker.MessageProperties{PayloadFormat: 1, ContentType: "text/plain", ResponseTopic: "r",
		CorrelationData: "AQ==", UserProperties: []broker.UserProperty{{Name: "unit", Value: "kW"}}}, Expiry: 600}
	if m.Topic != "a/4" {
		want = nil
	}
	if diff := cmp.Diff(want, m.Properties); diff != "" || m.Omitted != (m.Topic == "a/5") {
		t.Errorf("%s, %s: omitted %t, properties (-want +got):\n%s", name, m.Topic, m.Omitted, diff)
	}
}

// TestListenMessages follows what is published to the embedded broker, and to a remote one.
func TestListenMessages(t *testing.T) {
	t.Parallel()
	first, second := apitest.New(t, withAdminPassword), apitest.New(t)
	id := addBroker(t, second, object{"name": "first", "url": "mqtt://" + first.MQTT, "username": mqttAdmin, "password": mqttPassword})
	waitFor(t, "the connection", func() bool { return brokerRecord(second, id).Status.Connected })
	publisher := join(t, first, 5, "p", asAdmin)
	publisher.Publish("a/kept", "before", 1, mqtttest.Retained)

	for name, s := range map[string]*stream{
		"embedded": followEvents(t, first, first.TokenText("viewer"), first.At("/messages/events?filter=a/%2B")),
		"remote":   followEvents(t, second, second.TokenText("viewer"), second.BrokerAt(id, "/messages/events?filter=a/%2B")),
	} {
		if s.res.StatusCode != 200 {
			t.Fatalf("%s: status %d", name, s.res.StatusCode)
		}
		publisher.Publish("b/1", "not matched", 1)
		publisher.Publish("a/1", "plain", 1, mqtttest.Retained)
		publisher.Publish("a/2", "\xff\x00", 0)
		publisher.Publish("a/3", strings.Repeat("x", 5000), 0)
		publisher.Publish("a/4", "with", 0, withProperties("kW"))
		publisher.Publish("a/5", "long", 0, withProperties(strings.Repeat("k", broker.PreviewLimit)))
		var got []string
		s.await("message", "all messages", func(data string) bool {
			m := received(t, data)
			got = append(got, fmt.Sprintf("%s %.5s %s %t %d", m.Topic, m.Payload, m.Encoding, m.Truncated, m.Size))
			checkProperties(t, name, m)
			if m.Topic == "a/1" && (name == "embedded" && m.QoS != 1 || !m.Retain || m.At == 0) {
				t.Errorf("%s: %+v", name, m)
			}
			return len(got) == 5
		})
		if want := "a/1 plain  false 5|a/2 /wA= base64 false 2|a/3 xxxxx  true 5000|a/4 with  false 4|a/5 long  false 4"; strings.Join(got, "|") != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		s.end()
	}
	first.Root.Get(first.At("/messages/events")).Want(400)
	first.Root.Get(first.At("/messages/events?" + strings.Repeat("filter=a&", 11))).Want(400)
	first.Root.Get(first.At("/messages/events?filter=a&filter=")).Want(400)
	first.Root.Get(first.At("/messages/events?filter=a/%23/b")).Want(400)
	first.Root.Get(first.At("/messages/events?filter=$share/g/a")).Want(400)
}

// TestListenMessages_is_bounded publishes more than a stream has in a second: all are shown
// or counted.
func TestListenMessages_is_bounded(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	s := followEvents(t, api, api.TokenText("viewer"), api.At("/messages/events?filter=%23"))
	publisher := join(t, api, 5, "p", asAdmin)
	const sent = 2000
	for range sent {
		publisher.Publish("a", "x", 0)
	}
	shown, skipped := 0, 0
	for shown+skipped < sent {
		switch kind, data := s.next(); kind {
		case "message":
			shown++
		case "skipped":
			var n struct{ Skipped int }
			if err := json.Unmarshal([]byte(data), &n); err != nil {
				t.Fatal(err)
			}
			skipped += n.Skipped
		default:
			t.Fatalf("the stream ended with %d shown and %d skipped of %d", shown, skipped, sent)
		}
	}
	if shown+skipped != sent || shown == 0 {
		t.Errorf("%d shown and %d skipped of %d", shown, skipped, sent)
	}
	s.end()
	token := api.TokenText("viewer")
	for range 16 {
		if open := followEvents(t, api, token, api.At("/messages/events?filter=b")); open.res.StatusCode != 200 {
			t.Fatalf("status %d", open.res.StatusCode)
		}
	}
	if one := followEvents(t, api, token, api.At("/events")); one.res.StatusCode != 429 {
		t.Errorf("one stream more than a caller may have: status %d", one.res.StatusCode)
	}
}

// TestListenMessages_with_several_filters receives each message once, whether the filters
// overlap or not, with its properties.
func TestListenMessages_with_several_filters(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	mosquitto := addMosquitto(t, api)
	publish := func(at, topic, payload string, more object) {
		body := object{"topic": topic, "payload": payload}
		maps.Copy(body, more)
		api.Root.Post(at, body).Want(204)
	}
	const filters = "filter=a/%2B&filter=%2B/b&filter=a/%2B&filter=c/%23&filter=c/d&filter=e"
	properties := object{"contentType": "text/plain", "userProperties": []object{{"name": "unit", "value": "kW"}}}
	for name, at := range map[string]func(string) string{
		"embedded":  api.At,
		"mosquitto": func(path string) string { return api.BrokerAt(mosquitto, path) },
	} {
		t.Run(name, func(t *testing.T) {
			s := followEvents(t, api, api.TokenText("viewer"), at("/messages/events?"+filters))
			if s.res.StatusCode != 200 {
				t.Fatalf("status %d", s.res.StatusCode)
			}
			more := properties
			if name == "mosquitto" { // to which this service publishes over MQTT 3.1.1
				more = nil
			}
			for _, topic := range []string{"a/b", "a/x", "x/b", "c", "c/d", "c/d/e", "none", "e"} {
				publish(at("/messages"), topic, "to "+topic, more)
			}
			got := map[string]int{}
			s.await("message", "the last message", func(data string) bool {
				m := received(t, data)
				got[m.Topic+" "+m.Payload]++
				if p := m.Properties; name == "embedded" && (p == nil || p.ContentType != "text/plain" || p.UserProperties[0].Value != "kW") {
					t.Errorf("properties: %+v", p)
				}
				return len(got) == 7
			})
			publish(at("/messages"), "a/b", "end", nil)
			publish(at("/messages"), "c/d", "end", nil)
			s.await("message", "the end", func(data string) bool { // had a message come twice, its copy would be before this one of its topic
				m := received(t, data)
				got[m.Topic+" "+m.Payload]++
				return got["a/b end"] > 0 && got["c/d end"] > 0
			})
			for message, n := range got {
				if n != 1 {
					t.Errorf("%s came %d times", message, n)
				}
			}
			if len(got) != 9 {
				t.Errorf("got %v", got)
			}
		})
	}
	const overlapping = "/messages/events?filter=a/%2B/%2B/%2B&filter=%2B/b/%2B/%2B&filter=%2B/%2B/c/%2B&filter=%2B/%2B/%2B/d"
	api.Root.Get(api.BrokerAt(mosquitto, overlapping)).Want(400)
	s := followEvents(t, api, api.TokenText("viewer"), api.At(overlapping))
	publish(api.At("/messages"), "a/b/c/d", "x", object{"userProperties": []object{{"name": "unit", "value": strings.Repeat("k", 1001)}}})
	s.await("message", "the message", func(data string) bool {
		if m := received(t, data); m.Properties != nil || !m.Omitted {
			t.Errorf("long properties: %+v", m)
		}
		return true
	})
}
