package apitest_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// device is an MQTT client that is controlled packet by packet: it sends nothing by
// itself.
type device struct {
	t       *testing.T
	version byte
	conn    net.Conn
	r       *bufio.Reader
	id      uint16

	passesOver bool // messages that precede a response, as they may [MQTT-3.8.4]
}

// change changes a packet before it is sent.
type change func(*packets.Packet)

func user(username, password string) change {
	return func(pk *packets.Packet) {
		pk.Connect.UsernameFlag, pk.Connect.Username = true, []byte(username)
		pk.Connect.PasswordFlag, pk.Connect.Password = true, []byte(password)
	}
}

func keepAlive(seconds uint16) change {
	return func(pk *packets.Packet) { pk.Connect.Keepalive = seconds }
}

// persistent requests a session that outlives its connection.
func persistent(pk *packets.Packet) {
	pk.Connect.Clean = false
	pk.Properties.SessionExpiryInterval, pk.Properties.SessionExpiryIntervalFlag = 3600, true
}

// The administrator of the embedded broker.
const (
	mqttAdmin    = "admin"
	mqttPassword = "the-broker's-own"
)

var asAdmin = user(mqttAdmin, mqttPassword)

// connectTo connects to a listener and sends nothing yet.
func connectTo(t *testing.T, listener string, config *tls.Config, version byte) *device {
	t.Helper()
	conn, err := open(t, listener, config)
	if err != nil {
		t.Fatalf("connect to %s: %v", listener, err)
	}
	t.Cleanup(func() { conn.Close() })
	return &device{t: t, version: version, conn: conn, r: bufio.NewReader(conn)}
}

func open(t *testing.T, listener string, config *tls.Config) (net.Conn, error) {
	t.Helper()
	u, err := url.Parse(listener)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "mqtts":
		return tls.Dial("tcp", u.Host, config)
	case "unix":
		return net.Dial("unix", u.Path)
	case "ws", "wss":
		dialer := websocket.Dialer{TLSClientConfig: config, Subprotocols: []string{"mqtt"}, HandshakeTimeout: suite.HangLimit}
		c, _, err := dialer.DialContext(t.Context(), listener, nil)
		return &overWebSocket{Conn: c.NetConn(), ws: c}, err
	}
	return net.Dial("tcp", u.Host)
}

// overWebSocket is a connection whose bytes are in WebSocket frames.
type overWebSocket struct {
	net.Conn
	ws    *websocket.Conn
	frame io.Reader
}

func (o *overWebSocket) Read(p []byte) (int, error) {
	for {
		if o.frame != nil {
			if n, err := o.frame.Read(p); n > 0 || err != io.EOF {
				return n, err
			}
		}
		var err error
		if _, o.frame, err = o.ws.NextReader(); err != nil {
			return 0, err
		}
	}
}

func (o *overWebSocket) Write(p []byte) (int, error) {
	return len(p), o.ws.WriteMessage(websocket.BinaryMessage, p)
}

// join connects over TCP and must be accepted.
func join(t *testing.T, api *apitest.API, version byte, id string, changes ...change) *device {
	t.Helper()
	d := connectTo(t, api.Listeners[0], nil, version)
	d.connect(id, changes...)
	return d
}

// connect sends CONNECT and must be accepted.
func (d *device) connect(id string, changes ...change) packets.Packet {
	d.t.Helper()
	ack := d.sendConnect(id, changes...)
	if ack.ReasonCode != 0 {
		d.t.Fatalf("%s: CONNACK %#x, want 0", id, ack.ReasonCode)
	}
	return ack
}

// sendConnect sends CONNECT and returns the CONNACK.
func (d *device) sendConnect(id string, changes ...change) packets.Packet {
	d.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}
	pk.Connect.ProtocolName, pk.Connect.Clean, pk.Connect.ClientIdentifier = []byte("MQTT"), true, id
	if d.version == 3 {
		pk.Connect.ProtocolName = []byte("MQIsdp")
	}
	for _, c := range changes {
		c(&pk)
	}
	d.send(pk)
	return d.want(packets.Connack)
}

func (d *device) send(pk packets.Packet) {
	d.t.Helper()
	pk.ProtocolVersion, pk.Mods.AllowResponseInfo = d.version, true
	var buf bytes.Buffer
	encode := map[byte]func(*bytes.Buffer) error{
		packets.Connect: pk.ConnectEncode, packets.Publish: pk.PublishEncode, packets.Puback: pk.PubackEncode,
		packets.Pubrel: pk.PubrelEncode, packets.Subscribe: pk.SubscribeEncode, packets.Unsubscribe: pk.UnsubscribeEncode,
		packets.Pingreq: pk.PingreqEncode, packets.Disconnect: pk.DisconnectEncode,
	}[pk.FixedHeader.Type]
	if err := encode(&buf); err != nil {
		d.t.Fatal(err)
	}
	d.setDeadline()
	if _, err := d.conn.Write(buf.Bytes()); err != nil {
		d.t.Fatalf("send: %v", err)
	}
}

func (d *device) setDeadline() {
	d.conn.SetDeadline(time.Now().Add(suite.HangLimit)) //nolint:errcheck // a later read or write fails otherwise
}

// next returns the next packet, or an error if the connection is closed.
func (d *device) next() (pk packets.Packet, err error) {
	d.setDeadline()
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
	return pk, d.decode(&pk, body)
}

func (d *device) decode(pk *packets.Packet, body []byte) error {
	if pk.FixedHeader.Type == packets.Disconnect && len(body) == 1 { // the reason code only [MQTT-3.14.2.1]
		pk.ReasonCode = body[0]
		return nil
	}
	decode := map[byte]func([]byte) error{
		packets.Connack: pk.ConnackDecode, packets.Publish: pk.PublishDecode, packets.Puback: pk.PubackDecode,
		packets.Pubrec: pk.PubrecDecode, packets.Pubcomp: pk.PubcompDecode, packets.Suback: pk.SubackDecode,
		packets.Unsuback: pk.UnsubackDecode, packets.Disconnect: pk.DisconnectDecode,
	}[pk.FixedHeader.Type]
	if decode == nil {
		return nil
	}
	return decode(body)
}

// want returns the next packet, which must have the type.
func (d *device) want(kind byte) packets.Packet {
	d.t.Helper()
	pk, err := d.next()
	for err == nil && kind != packets.Publish && pk.FixedHeader.Type == packets.Publish && (d.passesOver || strings.HasPrefix(pk.TopicName, "$SYS/")) {
		pk, err = d.next() // $SYS messages may arrive at any time
	}
	if err != nil {
		d.t.Fatalf("waiting for a packet of type %d: %v", kind, err)
	}
	if pk.FixedHeader.Type != kind {
		d.t.Fatalf("got a packet of type %d (topic %q, code %#x), want type %d", pk.FixedHeader.Type, pk.TopicName, pk.ReasonCode, kind)
	}
	return pk
}

// wantMessage expects a PUBLISH with this topic and payload.
func (d *device) wantMessage(topic, payload string) packets.Packet {
	d.t.Helper()
	pk := d.want(packets.Publish)
	if pk.TopicName != topic || string(pk.Payload) != payload {
		d.t.Fatalf("got %q on %q, want %q on %q", pk.Payload, pk.TopicName, payload, topic)
	}
	return pk
}

// wantEnd waits for the end of the connection; a client of MQTT 5 first receives this
// reason.
func (d *device) wantEnd(reason byte) {
	d.t.Helper()
	for {
		pk, err := d.next()
		switch {
		case err == nil && pk.FixedHeader.Type == packets.Disconnect && pk.ReasonCode != reason:
			d.t.Fatalf("DISCONNECT with reason %#x, want %#x", pk.ReasonCode, reason)
		case err == nil && pk.FixedHeader.Type == packets.Disconnect:
			return
		case err != nil:
			if e, ok := err.(net.Error); ok && e.Timeout() || d.version == 5 { //nolint:errorlint // straight from the connection
				d.t.Fatalf("waiting for the end of the connection: %v", err)
			}
			return
		}
	}
}

// filter is a subscription with default options.
func filter(topic string, qos byte) packets.Subscription {
	return packets.Subscription{Filter: topic, Qos: qos}
}

// subscribe returns the codes of the SUBACK.
func (d *device) subscribe(filters ...packets.Subscription) []byte {
	d.t.Helper()
	d.id++
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}, PacketID: d.id, Filters: filters})
	return d.want(packets.Suback).ReasonCodes
}

// unsubscribe returns the codes of the UNSUBACK.
func (d *device) unsubscribe(topic string) []byte {
	d.t.Helper()
	d.id++
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Unsubscribe, Qos: 1}, PacketID: d.id,
		Filters: packets.Subscriptions{{Filter: topic}}})
	return d.want(packets.Unsuback).ReasonCodes
}

// publish sends a message and completes its acknowledgement. It returns the reason code
// of the first packet.
func (d *device) publish(topic, payload string, qos byte, changes ...change) byte {
	d.t.Helper()
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos}, TopicName: topic, Payload: []byte(payload)}
	if qos > 0 {
		d.id++
		pk.PacketID = d.id
	}
	for _, c := range changes {
		c(&pk)
	}
	d.send(pk)
	switch qos {
	case 1:
		return d.want(packets.Puback).ReasonCode
	case 2:
		code := d.want(packets.Pubrec).ReasonCode
		if code < 0x80 {
			d.release(pk.PacketID)
		}
		return code
	}
	d.ping()
	return 0
}

// release completes a message of QoS 2.
func (d *device) release(id uint16) {
	d.t.Helper()
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrel, Qos: 1}, PacketID: id})
	d.want(packets.Pubcomp)
}

// ping returns when the broker has processed what was sent before.
func (d *device) ping() {
	d.t.Helper()
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}})
	d.want(packets.Pingresp)
}

// acknowledge sends PUBACK.
func (d *device) acknowledge(id uint16) {
	d.t.Helper()
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Puback}, PacketID: id})
}

// leave sends DISCONNECT and closes the connection.
func (d *device) leave() {
	d.t.Helper()
	d.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
	d.drop()
}

// drop closes the connection without DISCONNECT.
func (d *device) drop() { d.conn.Close() }

func retained(pk *packets.Packet) { pk.FixedHeader.Retain = true }

// expiring makes a message expire after one second, the minimum.
func expiring(pk *packets.Packet) { pk.Properties.MessageExpiryInterval = 1 }
