package apitest_test

import (
	"crypto/tls"
	"strings"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
)

// change changes a packet before it is sent.
type change = mqtttest.Option

var (
	user       = mqtttest.As
	withID     = mqtttest.WithID
	keepAlive  = mqtttest.KeepAlive
	persistent = mqtttest.Persistent
	retained   = mqtttest.Retained
)

// The administrator of the embedded broker.
const (
	mqttAdmin    = "admin"
	mqttPassword = "the-broker's-own"
)

var asAdmin = user(mqttAdmin, mqttPassword)

// connectTo connects to a listener and sends nothing yet.
func connectTo(t *testing.T, listener string, config *tls.Config, version byte) *mqtttest.Client {
	t.Helper()
	d := mqtttest.Dial(t, listener, config, version)
	d.PassOver = isStatus
	return d
}

// isStatus reports whether a message is one of $SYS, which may arrive at any time.
func isStatus(pk packet.Packet) bool { return strings.HasPrefix(pk.Topic, "$SYS/") }

// join connects over TCP and must be accepted.
func join(t *testing.T, api *apitest.API, version byte, id string, changes ...change) *mqtttest.Client {
	t.Helper()
	d := connectTo(t, api.Listeners[0], nil, version)
	d.Connect(append([]change{withID(id)}, changes...)...)
	return d
}

// filter is a subscription with default options.
func filter(topic string, qos byte) packet.Filter {
	return packet.Filter{Filter: topic, QoS: qos}
}

// expiring makes a message expire after one second, the minimum.
func expiring(pk *packet.Packet) { pk.Properties.MessageExpiry = 1 }
