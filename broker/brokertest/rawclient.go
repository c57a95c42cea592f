package brokertest

import (
	"slices"
	"testing"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	wire "signalbox/broker/mqtt/mqtttest/packet"
)

// rawClient is a client of MQTT 5, which reports by reason codes what 3.1.1 hides: that a
// PUBLISH or UNSUBSCRIBE was refused.
type rawClient struct{ *mqtttest.Client }

// dialRaw connects and logs in, which must succeed.
func dialRaw(t *testing.T, addr, username string, secret broker.Secret) *rawClient {
	t.Helper()
	w := &rawClient{mqtttest.Dial(t, "mqtt://"+addr, nil, wire.V5)}
	w.Connect(mqtttest.WithID("wire-"+username), mqtttest.As(username, string(secret)))
	return w
}

// publish publishes a message with QoS 1 to each topic and returns which were granted. It keeps
// to the smallest maximum of in-flight messages that brokers have by default.
func (w *rawClient) publish(t *testing.T, topics ...string) (granted []bool) {
	t.Helper()
	const inFlight = 16
	for batch := range slices.Chunk(topics, inFlight) {
		for _, topic := range batch {
			w.Send(w.Message(topic, "", 1, false))
		}
		for range batch {
			granted = append(granted, w.Want(wire.Puback).Reason != wire.NotAuthorized)
		}
	}
	return granted
}

func (w *rawClient) subscribe(t *testing.T, filters ...string) []bool {
	t.Helper()
	return granted(t, filters, w.Subscribe(0, filters...))
}

func (w *rawClient) unsubscribe(t *testing.T, filters ...string) []bool {
	t.Helper()
	return granted(t, filters, w.Unsubscribe(filters...))
}

// granted returns which requests for filters were granted.
func granted(t *testing.T, filters []string, codes []byte) []bool {
	t.Helper()
	all := make([]bool, len(filters))
	for i := range filters {
		all[i] = codes[i] < 0x80
		if !all[i] && codes[i] != wire.NotAuthorized {
			t.Fatalf("%q is refused with reason %d", filters[i], codes[i])
		}
	}
	return all
}

// receive returns the topic of the next message, which must have QoS 0.
func (w *rawClient) receive(t *testing.T) string {
	t.Helper()
	return w.Want(wire.Publish).Topic
}
