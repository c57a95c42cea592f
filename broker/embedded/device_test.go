package embedded

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
	"signalbox/scripts/suite"
)

// device is an MQTT client without logic of its own: it sends the packets that the test
// asks for and returns those that it receives.
type device struct {
	t       *testing.T
	version byte
	conn    net.Conn
	r       *bufio.Reader
	name    string // the client id
	id      uint16

	patience time.Duration // for each packet, however long the test takes
}

// connectOption changes a CONNECT before it is sent.
type connectOption func(*packets.Packet)

func as(username, password string) connectOption {
	return func(pk *packets.Packet) {
		pk.Connect.UsernameFlag, pk.Connect.Username = true, []byte(username)
		if password != "" {
			pk.Connect.PasswordFlag, pk.Connect.Password = true, []byte(password)
		}
	}
}

func withID(id string) connectOption {
	return func(pk *packets.Packet) { pk.Connect.ClientIdentifier = id }
}

// persistent asks for a session that outlasts the connection.
func persistent(pk *packets.Packet) {
	pk.Connect.Clean = false
	pk.Properties.SessionExpiryInterval = 3600
	pk.Properties.SessionExpiryIntervalFlag = true
}

func withWill(topic, payload string) connectOption {
	return func(pk *packets.Packet) {
		pk.Connect.WillFlag = true
		pk.Connect.WillTopic, pk.Connect.WillPayload = topic, []byte(payload)
	}
}

// willAtQoS1 is for withWill, whose Will otherwise has QoS 0.
func willAtQoS1(pk *packets.Packet) { pk.Connect.WillQos = 1 }

// dial opens a connection and sends nothing.
func dial(t *testing.T, b *Broker, version byte) *device {
	t.Helper()
	conn, err := net.Dial("tcp", b.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	return newDevice(t, conn, version)
}

func dialTLS(t *testing.T, address string, c *tls.Config, version byte) *device {
	t.Helper()
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		t.Fatal(err)
	}
	return newDevice(t, conn, version)
}

func newDevice(t *testing.T, conn net.Conn, version byte) *device {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(suite.HangLimit)); err != nil {
		t.Fatal(err)
	}
	return &device{t: t, version: version, conn: conn, r: bufio.NewReader(conn), patience: suite.HangLimit}
}

// connects counts the devices that have sent CONNECT, so that no two have the same client
// id: those of different nodes may have the same port.
var connects atomic.Int64

// sendConnect sends CONNECT and returns the CONNACK.
func (d *device) sendConnect(options ...connectOption) packets.Packet {
	d.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}
	pk.Connect.ProtocolName = []byte("MQTT")
	if d.version == 3 {
		pk.Connect.ProtocolName = []byte("MQIsdp")
	}
	pk.Connect.Clean = true
	pk.Connect.ClientIdentifier = fmt.Sprint(strings.ReplaceAll(d.t.Name(), "/", "-"), connects.Add(1))
	for _, o := range options {
		o(&pk)
	}
	d.name = pk.Connect.ClientIdentifier
	d.send(pk)
	return d.want(packets.Connack)
}

// join dials and connects a client that must be admitted.
func join(t *testing.T, b *Broker, version byte, options ...connectOption) *device {
	t.Helper()
	d := dial(t, b, version)
	if ack := d.sendConnect(options...); ack.ReasonCode != 0 {
		t.Fatalf("CONNACK code %d", ack.ReasonCode)
	}
	return d
}

func (d *device) send(pk packets.Packet) {
	d.t.Helper()
	d.raw(d.encode(pk)...)
}

func (d *device) encode(pk packets.Packet) []byte {
	d.t.Helper()
	pk.ProtocolVersion = d.version
	pk.Mods.AllowResponseInfo = true
	var buf bytes.Buffer
	var err error
	switch pk.FixedHeader.Type {
	case packets.Connect:
		err = pk.ConnectEncode(&buf)
	case packets.Publish:
		err = pk.PublishEncode(&buf)
	case packets.Puback:
		err = pk.PubackEncode(&buf)
	case packets.Pubrec:
		err = pk.PubrecEncode(&buf)
	case packets.Pubrel:
		err = pk.PubrelEncode(&buf)
	case packets.Pubcomp:
		err = pk.PubcompEncode(&buf)
	case packets.Subscribe:
		err = pk.SubscribeEncode(&buf)
	case packets.Unsubscribe:
		err = pk.UnsubscribeEncode(&buf)
	case packets.Pingreq:
		err = pk.PingreqEncode(&buf)
	case packets.Disconnect:
		err = pk.DisconnectEncode(&buf)
	default:
		err = fmt.Errorf("cannot send a packet of type %d", pk.FixedHeader.Type)
	}
	if err != nil {
		d.t.Error(err)
	}
	return buf.Bytes()
}

func (d *device) raw(b ...byte) {
	d.t.Helper()
	d.conn.SetWriteDeadline(time.Now().Add(d.patience)) //nolint:errcheck // the write returns the error
	if _, err := d.conn.Write(b); err != nil {
		d.t.Fatalf("write: %v", err)
	}
}

// next returns the next packet, or an error when the connection has ended.
func (d *device) next() (packets.Packet, error) {
	var pk packets.Packet
	d.conn.SetReadDeadline(time.Now().Add(d.patience)) //nolint:errcheck // the read returns the error
	first, err := d.r.ReadByte()
	if err != nil {
		return pk, err
	}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return pk, err
	}
	if pk.FixedHeader.Remaining, _, err = packets.DecodeLength(d.r); err != nil {
		return pk, err
	}
	body := make([]byte, pk.FixedHeader.Remaining)
	if _, err := io.ReadFull(d.r, body); err != nil {
		return pk, err
	}
	pk.ProtocolVersion = d.version
	return pk, decode(&pk, body)
}

func decode(pk *packets.Packet, body []byte) error {
	switch pk.FixedHeader.Type {
	case packets.Connack:
		return pk.ConnackDecode(body)
	case packets.Publish:
		return pk.PublishDecode(body)
	case packets.Puback:
		return pk.PubackDecode(body)
	case packets.Pubrel:
		return pk.PubrelDecode(body)
	case packets.Pubrec:
		return pk.PubrecDecode(body)
	case packets.Pubcomp:
		return pk.PubcompDecode(body)
	case packets.Suback:
		return pk.SubackDecode(body)
	case packets.Unsuback:
		return pk.UnsubackDecode(body)
	case packets.Disconnect:
		if len(body) == 1 { // the reason alone [MQTT-3.14.2.1], which the decoder ignores
			pk.ReasonCode = body[0]
			return nil
		}
		return pk.DisconnectDecode(body)
	}
	return nil
}

// want returns the next packet, which must be of the type.
func (d *device) want(kind byte) packets.Packet {
	d.t.Helper()
	pk, err := d.next()
	if err != nil {
		d.t.Fatalf("waiting for a packet of type %d: %v", kind, err)
	}
	if pk.FixedHeader.Type != kind {
		d.t.Fatalf("got a packet of type %d (topic %q, code %d), want type %d",
			pk.FixedHeader.Type, pk.TopicName, pk.ReasonCode, kind)
	}
	return pk
}

// wantEnd waits until the broker has closed the connection without sending anything.
func (d *device) wantEnd() {
	d.t.Helper()
	pk, err := d.next()
	if err == nil {
		d.t.Fatalf("got a packet of type %d (topic %q), want the end", pk.FixedHeader.Type, pk.TopicName)
	}
	if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // straight from the connection
		d.t.Fatal("the connection was not closed")
	}
}

// subscribe returns the SUBACK's codes.
func (d *device) subscribe(qos byte, filters ...string) []byte {
	d.t.Helper()
	d.id++
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: d.id}
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: f, Qos: qos})
	}
	d.send(pk)
	return d.want(packets.Suback).ReasonCodes
}

// unsubscribe returns the UNSUBACK's codes.
func (d *device) unsubscribe(filters ...string) []byte {
	d.t.Helper()
	d.id++
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe, Qos: 1}, PacketID: d.id}
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: f})
	}
	d.send(pk)
	return d.want(packets.Unsuback).ReasonCodes
}

// message returns a PUBLISH.
func (d *device) message(topic, payload string, qos byte, retain bool) packets.Packet {
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos, Retain: retain},
		TopicName:   topic, Payload: []byte(payload),
	}
	if qos > 0 {
		d.id++
		pk.PacketID = d.id
	}
	return pk
}

// publish sends a message and returns the first packet that acknowledges it; at QoS 0 that
// is the response to a following PINGREQ.
func (d *device) publish(topic, payload string, qos byte) packets.Packet {
	d.t.Helper()
	d.send(d.message(topic, payload, qos, false))
	return d.want(d.acknowledgement(qos))
}

func (d *device) acknowledgement(qos byte) byte {
	switch qos {
	case 1:
		return packets.Puback
	case 2:
		return packets.Pubrec
	}
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	return packets.Pingresp
}

// received returns the topics of the messages that arrive before one on topic last, which
// another client publishes now.
func (d *device) received(by *device, last string) []string {
	d.t.Helper()
	by.publish(last, "", 0)
	topics := []string{}
	for {
		pk := d.want(packets.Publish)
		if pk.TopicName == last {
			return topics
		}
		topics = append(topics, pk.TopicName)
	}
}

// settled returns the topics of the messages that arrive until the broker has processed
// everything that was sent to it; retained ones are queued by then.
func (d *device) settled() []string {
	d.t.Helper()
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	topics := []string{}
	for {
		pk, err := d.next()
		switch {
		case err != nil:
			d.t.Fatal(err)
		case pk.FixedHeader.Type == packets.Pingresp:
			return topics
		case pk.FixedHeader.Type == packets.Publish:
			topics = append(topics, pk.TopicName)
		}
	}
}

// admin joins as the administrator, subscribed to the responses of dynamic security.
func admin(t *testing.T, b *Broker, version byte) *device {
	t.Helper()
	d := join(t, b, version, as(adminName, adminPassword))
	if codes := d.subscribe(0, dynsec.ResponseTopic); codes[0] != 0 {
		t.Fatalf("SUBACK code %d", codes[0])
	}
	return d
}
