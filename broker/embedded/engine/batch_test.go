package engine

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"signalbox/broker/mqtt/packet"
)

// written returns what a batch writes.
func written(b *batch) []byte {
	b.cutSegment()
	return slices.Concat(b.segments...)
}

// TestBatch compares what a batch writes with messages that are encoded one by one: shared
// encodings with flags and packet identifiers, large ones that are referred to, and encodings
// for one client only.
func TestBatch(t *testing.T) {
	t.Parallel()
	const now = 1000
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 7))
		pool := make([]*Message, 4)
		for i := range pool {
			pool[i] = randomMessage(dice)
		}
		var b batch
		var want []byte
		packets, messages := 0, 0
		for range 30 {
			version := []byte{packet.V31, packet.V311, packet.V5}[dice.IntN(3)]
			if dice.IntN(4) == 0 {
				want = packet.AppendPingresp(want)
				b.control(packet.AppendPingresp(nil), 1)
				packets++
				continue
			}
			d := delivery{message: pool[dice.IntN(len(pool))], qos: byte(dice.IntN(3)), retain: dice.IntN(2) == 0}
			if d.qos > 0 {
				d.id, d.dup = uint16(1+dice.IntN(65535)), dice.IntN(2) == 0
			}
			if dice.IntN(4) == 0 {
				d.extra = &extra{ids: []uint32{1, 300}}
			}
			if version == packet.V5 && dice.IntN(4) == 0 {
				d.alias, d.known = 7, dice.IntN(2) == 0
			}
			o := d.packet(version, now)
			want = packet.AppendPublish(want, version, &o)
			b.deliver(&d, version, now)
			packets++
			messages++
		}
		if b.size != len(want) || b.packets != packets || b.messages != messages {
			t.Fatalf("seed %d: counts %d bytes, %d packets, %d messages; want %d, %d, %d",
				seed, b.size, b.packets, b.messages, len(want), packets, messages)
		}
		if got := written(&b); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: writes something else than the packets one by one", seed)
		}
	}
}

func randomMessage(dice *rand.Rand) *Message {
	m := &Message{Topic: "a/b", Payload: make([]byte, []int{0, 10, 200, referAbove - 12, referAbove, 3 * referAbove}[dice.IntN(6)])}
	for i := range m.Payload {
		m.Payload[i] = byte(dice.IntN(256))
	}
	if dice.IntN(2) == 0 {
		m.Properties = []byte{0x26, 0, 1, 'k', 0, 1, 'v'}
	}
	if dice.IntN(3) == 0 {
		m.ExpiresAt = 10_000
	}
	return m
}

// TestBatchShares encodes a message once for all recipients, and copies no large payload.
func TestBatchShares(t *testing.T) {
	t.Parallel()
	m := &Message{Topic: "a", Payload: make([]byte, 2*referAbove)}
	var first, second batch
	first.deliver(&delivery{message: m, qos: 1, id: 1}, packet.V5, 0)
	second.deliver(&delivery{message: m, qos: 1, id: 2, retain: true}, packet.V5, 0)
	written(&first)
	written(&second)
	if &first.segments[1][0] != &second.segments[1][0] {
		t.Error("two clients get copies of their own")
	}
	if bytes.Equal(first.segments[0], second.segments[0]) {
		t.Error("two clients get the same packet identifier")
	}
	small := &Message{Topic: "a", Payload: []byte("x")}
	if a, b := small.frame(packet.V5, true), small.frame(packet.V5, true); &a[0] != &b[0] {
		t.Error("the message is encoded twice")
	}
}
