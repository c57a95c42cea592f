package embedded

import (
	"crypto/tls"
	"net"
	"testing"

	"signalbox/broker/dynsec"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// device is a client of a test, with what these tests do repeatedly.
type device struct{ *mqtttest.Client }

// connectOption changes a CONNECT before it is sent.
type connectOption = mqtttest.Option

var (
	as         = mqtttest.As
	withID     = mqtttest.WithID
	withWill   = mqtttest.WithWill
	persistent = mqtttest.Persistent
)

// willAtQoS1 is for withWill, whose Will otherwise has QoS 0.
func willAtQoS1(pk *packet.Packet) { pk.Connect.Will.QoS = 1 }

// dial opens a connection and sends nothing.
func dial(t *testing.T, b *Broker, version byte) *device {
	t.Helper()
	return &device{mqtttest.Dial(t, "mqtt://"+b.Addrs()[0], nil, version)}
}

func dialTLS(t *testing.T, address string, c *tls.Config, version byte) *device {
	t.Helper()
	return &device{mqtttest.Dial(t, "mqtts://"+address, c, version)}
}

func newDevice(t *testing.T, conn net.Conn, version byte) *device {
	t.Helper()
	return &device{mqtttest.New(t, conn, version)}
}

// join dials and connects a client that must be admitted.
func join(t *testing.T, b *Broker, version byte, options ...connectOption) *device {
	t.Helper()
	d := dial(t, b, version)
	d.Connect(options...)
	return d
}

// received returns the topics of the messages that arrive before one on topic last, which
// another client publishes now.
func (d *device) received(by *device, last string) []string {
	d.T.Helper()
	by.Publish(last, "", 0)
	topics := []string{}
	for {
		pk := d.Want(packet.Publish)
		if pk.Topic == last {
			return topics
		}
		topics = append(topics, pk.Topic)
	}
}

// admin joins as the administrator, subscribed to the responses of dynamic security.
func admin(t *testing.T, b *Broker, version byte) *device {
	t.Helper()
	d := join(t, b, version, as(adminName, adminPassword))
	if codes := d.Subscribe(0, dynsec.ResponseTopic); codes[0] != 0 {
		t.Fatalf("SUBACK code %d", codes[0])
	}
	return d
}
