package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"signalbox/scripts/suite"
)

// client is one connection of a scene.
type client struct {
	*scene
	name string // client identifier, once connected
	conn stream
	r    *bufio.Reader
	ids  uint16 // packet identifiers used
}

// dial opens a connection and sends nothing.
func (s *scene) dial() *client {
	s.Helper()
	conn, err := dialStream(s.subject.addr(s.ws), s.ws)
	if err != nil {
		s.Fatalf("connect to %s: %v", s.subject.kind, err)
	}
	s.Cleanup(func() { conn.Close() })
	c := &client{scene: s, conn: conn}
	c.startReading()
	return c
}

func (c *client) startReading() { c.r = bufio.NewReader(c.conn) }

// join connects and must be accepted. Without a version it uses the scene's, without a
// client identifier one of its own.
func (s *scene) join(as connect) *client {
	s.Helper()
	c, ack := s.greet(as)
	if ack.reason() != success {
		s.Fatalf("refused: %v", ack)
	}
	return c
}

// greet connects and returns the response, which is a CONNACK.
func (s *scene) greet(as connect) (*client, packet) {
	s.Helper()
	if as.version == 0 {
		as.version = s.version
	}
	if as.clientID == "" {
		s.dials++
		as.clientID = s.id(fmt.Sprintf("c%d", s.dials))
	}
	c := s.dial()
	if as.version != s.version {
		other := *s
		other.version = as.version
		c.scene = &other
	}
	c.name = as.clientID
	c.send(as.bytes())
	ack := c.next()
	if ack.kind() != typeConnack || ack.malformed != nil {
		s.Fatalf("got %v, want CONNACK", ack)
	}
	return c, ack
}

// send writes bytes as they are.
func (c *client) send(pieces ...[]byte) {
	c.Helper()
	c.extend()
	if _, err := c.conn.Write(cat(pieces...)); err != nil {
		c.Fatalf("%s sends: %v", c.name, err)
	}
}

// sendAnyway writes bytes to a broker that may close the connection meanwhile.
func (c *client) sendAnyway(pieces ...[]byte) {
	c.extend()
	c.conn.Write(cat(pieces...)) //nolint:errcheck // reading shows what the broker does
}

func (c *client) extend() {
	c.conn.SetDeadline(time.Now().Add(suite.HangLimit)) //nolint:errcheck // using a closed connection shows it
}

// next reads the next packet, of any type.
func (c *client) next() packet {
	c.Helper()
	p, err := c.read()
	if err != nil {
		c.Fatalf("%s waits for a packet: %v", c.name, err)
	}
	return p
}

func (c *client) read() (packet, error) {
	c.extend()
	raw, err := readPacket(c.r)
	if err != nil {
		return packet{}, err
	}
	return parse(c.version, raw), nil
}

// expect expects exactly this packet next; see packet.String for what is compared.
func (c *client) expect(want []byte) {
	c.Helper()
	got, wanted := c.next(), parse(c.version, want)
	if got.String() != wanted.String() {
		c.Fatalf("%s:\n got %v\n     % x\nwant %v\n     % x", c.name, got, got.raw, wanted, want)
	}
}

// expectInAnyOrder expects these packets next, in any order.
func (c *client) expectInAnyOrder(want ...[]byte) {
	c.Helper()
	var wanted, got []string
	for _, w := range want {
		wanted = append(wanted, parse(c.version, w).String())
		got = append(got, c.next().String())
	}
	slices.Sort(wanted)
	slices.Sort(got)
	if !slices.Equal(got, wanted) {
		c.Fatalf("%s:\n got %q\nwant %q", c.name, got, wanted)
	}
}

// expectPublish expects this PUBLISH next and returns its packet identifier, which the
// broker chooses.
func (c *client) expectPublish(want publish) (id uint16) {
	c.Helper()
	got := c.next()
	if want.qos > 0 && got.kind() == typePublish && got.id == 0 {
		c.Fatalf("%s: a PUBLISH with packet identifier 0: %v", c.name, got)
	}
	want.id = got.id
	if wanted := parse(c.version, want.bytes(c.version)); !same(got, wanted) {
		c.Fatalf("%s:\n got %v\n     % x\nwant %v", c.name, got, got.raw, wanted)
	}
	return got.id
}

// receive expects this PUBLISH next and acknowledges it completely.
func (c *client) receive(want publish) {
	c.Helper()
	id := c.expectPublish(want)
	switch want.qos {
	case 1:
		c.send(ack(c.version, typePuback, id, success))
	case 2:
		c.send(ack(c.version, typePubrec, id, success))
		c.expect(ack(c.version, typePubrel, id, success))
		c.send(ack(c.version, typePubcomp, id, success))
	}
}

// expectAck expects an acknowledgement without an error; no matching subscribers is none
// [MQTT-3.4.2-1].
func (c *client) expectAck(kind byte, id uint16) {
	c.Helper()
	got := c.next()
	accepted := got.reason() == success ||
		got.reason() == noMatchingSubscribers && (kind == typePuback || kind == typePubrec)
	if got.kind() != kind || got.id != id || !accepted || got.malformed != nil {
		c.Fatalf("%s: got %v (% x), want %v", c.name, got, got.raw, parse(c.version, ack(c.version, kind, id, success)))
	}
}

// nextID returns a packet identifier that this client has not used.
func (c *client) nextID() uint16 {
	c.ids++
	return c.ids
}

// publish sends a message and completes its flow; the acknowledgement is the next packet
// that the broker sends to this client.
func (c *client) publish(p publish) {
	c.Helper()
	if p.qos > 0 && p.id == 0 {
		p.id = c.nextID()
	}
	c.send(p.bytes(c.version))
	switch p.qos {
	case 1:
		c.expectAck(typePuback, p.id)
	case 2:
		c.expectAck(typePubrec, p.id)
		c.send(ack(c.version, typePubrel, p.id, success))
		c.expectAck(typePubcomp, p.id)
	}
}

// subscribe subscribes to filters with the same options, which must be granted.
func (c *client) subscribe(options byte, names ...string) {
	c.Helper()
	var filters []filter
	for _, name := range names {
		filters = append(filters, filter{name, options})
	}
	id := c.nextID()
	c.send(subscribe(c.version, id, nil, filters...))
	c.expect(suback(c.version, id, slices.Repeat([]byte{options & 3}, len(names))...))
}

// expectPong expects that the broker has nothing for this client now: the response to a
// PINGREQ is the next packet.
func (c *client) expectPong() {
	c.Helper()
	c.send(pingreq())
	c.expect(pingresp())
}

// expectNothing expects that nothing that a client has published until now reaches this
// one, by a message that comes after it [MQTT-4.6.0-5].
func (c *client) expectNothing(from *client) {
	c.Helper()
	topic := fmt.Sprintf("%s-nothing/%s/%d", c.mark, c.name, c.nextID()) // outside what c.topic("#") matches
	c.subscribe(1, topic)
	from.publish(publish{topic: topic, qos: 1, payload: "before this"})
	c.receive(publish{topic: topic, qos: 1, payload: "before this"})
}

// expectClosed expects the broker to close the connection, without another packet.
func (c *client) expectClosed() {
	c.Helper()
	switch p, err := c.read(); {
	case err == nil:
		c.Fatalf("%s: got %v (% x), want the connection closed", c.name, p, p.raw)
	case stillOpen(err):
		c.Fatalf("%s: the connection is open still", c.name)
	}
}

// stillOpen reports whether a read ended because nothing arrived, not because the
// connection ended.
func stillOpen(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// expectEnd expects the broker to end the connection: in MQTT 5 with a DISCONNECT that
// contains one of the reasons, before that by closing it [MQTT-4.13.1-1]. The DISCONNECT is
// a SHOULD of the standard, which Mosquitto does not always follow.
func (c *client) expectEnd(reasons ...byte) {
	c.Helper()
	if !c.five() {
		c.expectClosed()
		return
	}
	c.expectReason(typeDisconnect, reasons)
}

// expectRefusal expects the broker to refuse a CONNECT: in MQTT 5 with one of the reasons,
// before that with the return code, or without CONNACK if that is hangUp. Mosquitto does
// not always send its reason.
func (c *client) expectRefusal(code byte, reasons ...byte) {
	c.Helper()
	switch {
	case c.five():
		c.expectReason(typeConnack, reasons)
	case code == hangUp:
		c.expectClosed()
	default:
		c.expect(frame(typeConnack, []byte{0, code}))
		c.expectClosed()
	}
}

// hangUp is the return code of a refusal without CONNACK.
const hangUp byte = 0xff

// expectReason expects the end of the connection, after a packet with one of the reasons.
func (c *client) expectReason(kind byte, reasons []byte) {
	c.Helper()
	p, err := c.read()
	if err != nil && c.on(kindMosquitto) && !stillOpen(err) {
		return
	}
	if err != nil {
		c.Fatalf("%s: got %v, want %s with a reason of % x", c.name, err, typeNames[kind>>4], reasons)
	}
	if p.kind() == typeDisconnect && len(p.prop(sessionExpiry)) > 0 {
		c.Errorf("%s: %v has a session expiry [MQTT-3.14.2-2]", c.name, p)
	}
	if p.kind() != kind || p.malformed != nil || p.present || !slices.Contains(reasons, p.reason()) {
		c.Fatalf("%s: got %v (% x), want %s with a reason of % x", c.name, p, p.raw, typeNames[kind>>4], reasons)
	}
	c.expectClosed()
}

// expectGone waits for the end of the connection, however it happens.
func (c *client) expectGone() {
	c.Helper()
	for {
		p, err := c.read()
		if stillOpen(err) {
			c.Fatalf("%s: the connection is open still", c.name)
		}
		if err != nil {
			return
		}
		c.Logf("%s: on the way out: %v", c.name, p)
	}
}

// expectEnded expects the broker to end a connection on which raw is sent, which is no
// complete CONNECT. With little time, that may happen within the handshake of the
// WebSocket.
func (s *scene) expectEnded(raw []byte) {
	s.Helper()
	conn, err := dialStream(s.subject.addr(s.ws), s.ws)
	switch {
	case err != nil && (!s.ws || errors.Is(err, syscall.ECONNREFUSED) || stillOpen(err)):
		s.Fatalf("connect to %s: %v", s.subject.kind, err)
	case err != nil:
		return
	}
	s.Cleanup(func() { conn.Close() })
	c := &client{scene: s, conn: conn}
	c.startReading()
	c.sendAnyway(raw)
	c.expectGone()
}

// leave sends DISCONNECT and waits until the broker has closed the connection, so that the
// session is disconnected afterwards [MQTT-3.14.4-1].
func (c *client) leave() {
	c.Helper()
	c.quit(success, nil)
}

// quit sends DISCONNECT with a reason and properties, and waits as leave does.
func (c *client) quit(reason byte, props []byte) {
	c.Helper()
	c.send(disconnect(c.version, reason, props))
	c.expectClosed()
}

// drop closes the connection without DISCONNECT.
func (c *client) drop() {
	c.conn.Close()
}
