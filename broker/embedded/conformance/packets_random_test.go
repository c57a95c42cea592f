package conformance

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"signalbox/scripts/suite"
)

// garbageVariable names the environment variable for the number of packets that TestGarbage
// sends in each of its scenes, and garbageSeedVariable the one for the seed that repeats a
// run.
const (
	garbageVariable     = "CONFORMANCE_GARBAGE"
	garbageSeedVariable = "CONFORMANCE_GARBAGE_SEED"
)

// TestGarbage sends valid packets after random modifications. Whatever they are, the broker
// answers with well-formed packets, or closes the connection, and serves other clients
// [MQTT-4.13.1-1] [MQTT-4.8.0-1].
func TestGarbage(t *testing.T) {
	count, seed := fromEnvironment(t, garbageVariable, 200), fromEnvironment(t, garbageSeedVariable, rand.Int())
	t.Logf("%s=%d", garbageSeedVariable, seed)
	play(t, everyVersion, func(s *scene) {
		r := rand.New(rand.NewPCG(uint64(seed), uint64(s.version)))
		for range count {
			c := s.dial()
			if r.IntN(4) > 0 {
				c.sendAnyway(connect{version: s.version, clientID: s.id("g"), keep: r.IntN(2) == 0}.bytes())
			}
			for range 1 + r.IntN(4) {
				c.sendAnyway(spoil(r, s.packet(r)))
			}
			c.endWriting()
			s.expectWellFormed(c)
		}
		s.join(connect{}).expectPong()
	}, notOn(kindMosquitto, "2.0.11 does not check every packet"))
}

// expectWellFormed reads to the end of a connection.
func (s *scene) expectWellFormed(c *client) {
	s.Helper()
	for {
		p, err := c.read()
		if stillOpen(err) {
			s.Fatal("the connection is open still")
		}
		if err != nil {
			c.conn.Close()
			return
		}
		if p.malformed != nil && p.kind() != typeConnack { // which may be in the form of another version
			s.Fatalf("got % x: %v", p.raw, p.malformed)
		}
	}
}

// endWriting ends the sending direction, so that the broker does not wait for the rest of a
// packet.
func (c *client) endWriting() {
	switch conn := c.conn.(type) {
	case *net.TCPConn:
		conn.CloseWrite() //nolint:errcheck // the broker may have closed the connection already
	case *webSocket:
		conn.WriteControl(websocket.CloseMessage, nil, time.Now().Add(suite.HangLimit)) //nolint:errcheck // as above
	}
}

// packet returns a valid packet.
func (s *scene) packet(r *rand.Rand) []byte {
	id, topic := uint16(1+r.IntN(5)), s.topic(fmt.Sprint(r.IntN(3)))
	var props []byte
	if r.IntN(2) == 0 {
		props = cat(willProperties(), propU32(messageExpiry, 1+r.Uint32N(100)))
	}
	switch r.IntN(10) {
	case 0:
		return connect{version: s.version, clientID: s.id("g"), username: "u", password: "p",
			will: &will{topic: topic, payload: "gone", qos: byte(r.IntN(3)), props: props}}.bytes()
	case 1:
		return subscribe(s.version, id, propVarint(subscriptionIdentifier, 1+r.IntN(1000)),
			filter{topic, byte(r.IntN(3))}, filter{s.topic("#"), 2}, filter{"$share/g/" + topic, 1})
	case 2:
		return unsubscribe(s.version, id, user("a", "b"), topic, s.topic("#"))
	case 3:
		return ack(s.version, []byte{typePuback, typePubrec, typePubrel, typePubcomp}[r.IntN(4)], id, success)
	case 4:
		return pingreq()
	case 5:
		return disconnect(s.version, []byte{success, disconnectWithWill}[r.IntN(2)], user("a", "b"))
	case 6:
		return frame(typeAuth, []byte{0x18}, withLength(v5, propText(authMethod, "x")))
	default:
		return publish{topic: topic, payload: "payload", qos: byte(r.IntN(3)), id: id, retain: r.IntN(2) == 0, props: props}.bytes(s.version)
	}
}

// spoil modifies a packet: most often once, sometimes not at all.
func spoil(r *rand.Rand, p []byte) []byte {
	p = append([]byte(nil), p...)
	for range r.IntN(3) {
		if len(p) == 0 {
			return p
		}
		at := r.IntN(len(p))
		switch r.IntN(6) {
		case 0:
			p[at] ^= 1 << r.IntN(8)
		case 1:
			p[at] = byte(r.Uint32())
		case 2: // truncated, with the old length
			p = p[:at]
		case 3: // truncated, with the new length
			p = relength(p[:at])
		case 4:
			p = relength(append(p[:at:at], append([]byte{byte(r.Uint32())}, p[at:]...)...))
		case 5: // some of it twice
			p = relength(append(p[:len(p):len(p)], p[at:]...))
		}
	}
	return p
}

// relength corrects the length of a short packet.
func relength(p []byte) []byte {
	if len(p) >= 2 && len(p) <= 129 {
		p[1] = byte(len(p) - 2)
	}
	return p
}
