package brokertest

import (
	"bufio"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

// rawClient is a minimal MQTT 5 client. Version 5 reports by reason codes what 3.1.1 hides: that a
// PUBLISH or UNSUBSCRIBE was refused.
type rawClient struct {
	conn net.Conn
	r    *bufio.Reader
	id   uint16
}

// notAuthorized is the reason code of a refusal [MQTT-4.13].
const notAuthorized = 0x87

// dialRaw connects and logs in, which must succeed.
func dialRaw(t *testing.T, addr, username string, secret broker.Secret) *rawClient {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, suite.HangLimit)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(3 * suite.HangLimit)); err != nil {
		t.Fatalf("set a deadline: %v", err)
	}
	w := &rawClient{conn: conn, r: bufio.NewReader(conn)}
	const version5, userPasswordClean, keepAliveOff = 5, 0xc2, 0
	body := append(text(nil, "MQTT"), version5, userPasswordClean, keepAliveOff, keepAliveOff, 0)
	body = text(text(text(body, "wire-"+username), username), string(secret))
	w.send(t, byte(Connect)<<4, body)
	if ack := w.next(t, Connack); ack[1] != 0 {
		t.Fatalf("%s is refused with reason %d", username, ack[1])
	}
	return w
}

// text appends a string with its length [MQTT-1.5.4].
func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// send writes a packet: its first byte, the remaining length and the body.
func (w *rawClient) send(t *testing.T, first byte, body []byte) {
	t.Helper()
	p := binary.AppendUvarint([]byte{first}, uint64(len(body))) // MQTT's variable byte integer is a uvarint
	if _, err := w.conn.Write(append(p, body...)); err != nil {
		t.Fatalf("send: %v", err)
	}
}

// next reads the next packet, which must have that type, and returns it without its fixed header.
func (w *rawClient) next(t *testing.T, kind PacketType) []byte {
	t.Helper()
	p, err := readPacket(w.r)
	if err != nil {
		t.Fatalf("waiting for packet type %d: %v", kind, err)
	}
	if p.kind() != kind {
		t.Fatalf("got packet type %d, want %d", p.kind(), kind)
	}
	_, length := binary.Uvarint(p[1:])
	return p[1+length:]
}

func (w *rawClient) newID() []byte {
	w.id++
	return binary.BigEndian.AppendUint16(nil, w.id)
}

// publish publishes a message with QoS 1 to each topic and returns which were granted. It keeps
// to the smallest maximum of in-flight messages that brokers have by default.
func (w *rawClient) publish(t *testing.T, topics ...string) (granted []bool) {
	t.Helper()
	const qos1, noProperties, inFlight = 2, 0, 16
	for batch := range slices.Chunk(topics, inFlight) {
		for _, topic := range batch {
			body := append(text(nil, topic), w.newID()...)
			w.send(t, byte(Publish)<<4|qos1, append(body, noProperties))
		}
		for range batch {
			ack := w.next(t, Puback)
			granted = append(granted, len(ack) == 2 || ack[2] != notAuthorized)
		}
	}
	return granted
}

// filters sends a SUBSCRIBE or UNSUBSCRIBE of many filters and returns which were granted.
// Options follow each filter.
func (w *rawClient) filters(t *testing.T, request, answer PacketType, filters []string, options ...byte) []bool {
	t.Helper()
	const reserved = 2 // bits required by [MQTT-3.8.1-1]
	body := append(w.newID(), 0)
	for _, f := range filters {
		body = append(text(body, f), options...)
	}
	w.send(t, byte(request)<<4|reserved, body)
	codes := skipProperties(w.next(t, answer)[2:])
	granted := make([]bool, len(filters))
	for i := range filters {
		granted[i] = codes[i] < 0x80
		if !granted[i] && codes[i] != notAuthorized {
			t.Fatalf("%q is refused with reason %d", filters[i], codes[i])
		}
	}
	return granted
}

func (w *rawClient) subscribe(t *testing.T, filters ...string) []bool {
	t.Helper()
	const qos0 = 0
	return w.filters(t, Subscribe, Suback, filters, qos0)
}

func (w *rawClient) unsubscribe(t *testing.T, filters ...string) []bool {
	t.Helper()
	return w.filters(t, Unsubscribe, Unsuback, filters)
}

// receive returns the topic of the next message, which must have QoS 0.
func (w *rawClient) receive(t *testing.T) string {
	t.Helper()
	b := w.next(t, Publish)
	return string(b[2 : 2+binary.BigEndian.Uint16(b)])
}

// skipProperties returns what follows the properties.
func skipProperties(b []byte) []byte {
	n, length := binary.Uvarint(b)
	return b[length+int(n):]
}
