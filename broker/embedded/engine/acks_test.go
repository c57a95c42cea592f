package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"signalbox/broker/mqtt/packet"
)

// sentAcks returns the acknowledgements that a connection is about to write, in order.
func sentAcks(t *testing.T, c *Conn) (all []ack) {
	t.Helper()
	for p := slices.Concat(c.before.buf, c.after.buf); len(p) > 0; {
		n, err := packet.Size(p)
		if err != nil || n < 4 || n > len(p) {
			t.Fatalf("not acknowledgements: % x", p)
		}
		a := ack{kind: p[0] >> 4, id: uint16(p[2])<<8 | uint16(p[3])}
		if n > 4 {
			a.reason = p[4]
		}
		all = append(all, a)
		p = p[n:]
	}
	return all
}

// ofKind returns the acknowledgements of a type.
func ofKind(all []ack, kind byte) []ack {
	return slices.DeleteFunc(slices.Clone(all), func(a ack) bool { return a.kind != kind })
}

// TestAcksInOrder calls sendAck in any order; the acknowledgements are sent in the order of
// the client's packets [MQTT-4.6.0-2] [MQTT-4.6.0-3].
func TestAcksInOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		dice := rand.New(rand.NewPCG(seed, 5))
		c := &Conn{version: packet.V5}
		var want []ack
		type owed struct {
			kind   byte
			number uint64
		}
		var open []owed
		for id := range uint16(40) {
			a := ack{kind: packet.TypePuback + byte(dice.IntN(2)), id: id + 1}
			want = append(want, a)
			if dice.IntN(3) == 0 {
				c.acknowledge(a.kind, a.id, 0)
				continue
			}
			open = append(open, owed{a.kind, c.reserveAck(a.kind, a.id, 0)})
		}
		dice.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
		for i, o := range open {
			before := len(sentAcks(t, c))
			c.sendAck(o.kind, o.number, 0)
			if i < len(open)-1 && before == len(want) {
				t.Fatal("all were sent although one was owed")
			}
		}
		got := sentAcks(t, c)
		for _, kind := range []byte{packet.TypePuback, packet.TypePubrec} {
			if got, want := ofKind(got, kind), ofKind(want, kind); !slices.Equal(got, want) {
				t.Fatalf("seed %d: sent %v, want %v", seed, got, want)
			}
		}
	}
}

// TestAcksRefused sends another reason code in MQTT 5. Older versions have none: see
// TestRefusedBeforeFive.
func TestAcksRefused(t *testing.T) {
	t.Parallel()
	c := &Conn{version: packet.V5, quota: 2}
	first := c.reserveAck(packet.TypePuback, 1, 0)
	c.acknowledge(packet.TypePuback, 2, 0)
	c.sendAck(packet.TypePuback, first, packet.ReasonQuotaExceeded)
	want := []ack{{kind: packet.TypePuback, id: 1, reason: packet.ReasonQuotaExceeded}, {kind: packet.TypePuback, id: 2}}
	if got := sentAcks(t, c); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	if c.quota != 0 {
		t.Errorf("%d messages still count", c.quota)
	}
}

// TestAcksLanes shows that PUBREL and PUBCOMP delay only each other.
func TestAcksLanes(t *testing.T) {
	t.Parallel()
	c := &Conn{version: packet.V5}
	release := c.reserveAck(packet.TypePubrel, 1, 0)
	c.acknowledge(packet.TypePubcomp, 2, 0)
	c.acknowledge(packet.TypePuback, 3, 0)
	c.acknowledge(packet.TypePubrec, 4, 0)
	c.sendAck(packet.TypePubrel, release, 0)
	want := []ack{{kind: packet.TypePubrec, id: 4}, {kind: packet.TypePuback, id: 3}, {kind: packet.TypePubrel, id: 1}, {kind: packet.TypePubcomp, id: 2}}
	if got := sentAcks(t, c); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

// TestAcksOfRequests sends the acknowledgement of a request before messages, which its response is one of, unless
// an earlier one waits.
func TestAcksOfRequests(t *testing.T) {
	t.Parallel()
	c := &Conn{version: packet.V5}
	c.acknowledgeRequest(packet.TypePuback, 1)
	if len(c.before.buf) == 0 || len(c.after.buf) > 0 {
		t.Errorf("% x is sent before messages, and % x after them", c.before.buf, c.after.buf)
	}
	c.acknowledge(packet.TypePuback, 2, 0)
	c.acknowledgeRequest(packet.TypePuback, 3)
	want := []ack{{kind: packet.TypePuback, id: 1}, {kind: packet.TypePuback, id: 2}, {kind: packet.TypePuback, id: 3}}
	if got := sentAcks(t, c); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}
