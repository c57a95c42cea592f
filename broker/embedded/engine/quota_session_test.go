package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// TestQuotaOfWills refuses clients whose Wills exceed a user's quota of memory. A refused
// client keeps its session.
func TestQuotaOfWills(t *testing.T) {
	t.Parallel()
	quota := bounded(engine.Quota{}, engine.Quota{SessionBytes: 190_000})
	b := start(t, t.TempDir(), quota)
	with := func(id string, size int) packet.Connect {
		h := by("u", id)
		h.Will = &packet.Will{Topic: "w", Payload: make([]byte, size), Delay: 1000}
		return h
	}
	refused := func(h packet.Connect) {
		t.Helper()
		if _, err := b.TryConnect(h); err == nil || !strings.Contains(err.Error(), "0x97") {
			t.Errorf("%d bytes too much: %v", len(h.Will.Payload), err)
		}
	}
	b.Connect(with("1", 60_000))
	second := b.Connect(with("2", 60_000))
	b.Connect(with("3", 60_000)).Close() // with a Will that is due later
	until(t, "the client is gone", func() bool { i, _, err := b.Client("3"); return err == nil && !i.Connected })
	refused(with("4", 60_000))
	larger := with("3", 65_000)
	larger.Will.Topic = strings.Repeat("w", 20_000)
	refused(larger)
	b.wantRefused(t, engine.QuotaSessionBytes, 2)
	if _, _, err := b.Client("3"); err != nil {
		t.Errorf("the session of a client that was refused: %v", err)
	}
	second.Disconnect() // without its Will
	until(t, "the client is gone", func() bool { i, _, err := b.Client("2"); return err == nil && !i.Connected })
	b.Connect(with("4", 60_000))
	dir := b.dir
	b.close()
	b = start(t, dir, quota)
	check(t, b.Audit())
	refused(with("5", 60_000))
}

// TestQuotaOfSmallMessages bounds queued messages by the memory of their stubs.
func TestQuotaOfSmallMessages(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), bounded(engine.Quota{}, engine.Quota{SessionBytes: 20_000}))
	b.wait(by("u", "away"), "t")
	p := b.Connect(by("p", "p"))
	accepted := 0
	for p.Publish(packet.Outgoing{Topic: "t", QoS: 1, PacketID: 1}); p.WantAck(packet.TypePuback).Reason == 0; accepted++ {
		if accepted > 1000 {
			t.Fatal("1,000 messages are within 20,000 bytes")
		}
		p.Publish(packet.Outgoing{Topic: "t", QoS: 1, PacketID: 1})
	}
	if accepted < 50 {
		t.Errorf("only %d messages fit", accepted)
	}
	b.wantRefused(t, engine.QuotaSessionBytes, 1)
}

// TestQuotaOfIncoming publishes messages of QoS 2 and releases none. The first that exceeds the
// quota is refused in MQTT 5 and ends the connection in 3.1.1, whose PUBREC cannot refuse
// [MQTT-4.8.0-2 of 3.1.1]. A client that then releases one can publish again.
func TestQuotaOfIncoming(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{packet.V311, packet.V5} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			t.Parallel()
			b := start(t, t.TempDir(), bounded(engine.Quota{}, engine.Quota{SessionBytes: 5000}),
				func(c *engine.Config, _ *engine.Parts) { c.ReceiveMaximum = 1000 })
			h := by("u", "c")
			h.Version = version
			c := b.Connect(h)
			refused := uint16(0)
			for id := uint16(1); refused == 0 && id < 1000; id++ {
				c.Publish(packet.Outgoing{Topic: "t", QoS: 2, PacketID: id})
				p, err := c.Read()
				switch {
				case errors.Is(err, os.ErrDeadlineExceeded):
					t.Fatalf("message %d is not answered, and the connection stays", id)
				case err != nil && version == packet.V5:
					t.Fatal(err)
				case err != nil, len(p) > 4 && p[4] == packet.ReasonQuotaExceeded:
					refused = id
				}
			}
			if refused < 100 || refused > 200 {
				t.Errorf("message %d of 1,000 is refused", refused)
			}
			if version == packet.V311 {
				c = b.Connect(h)
			}
			c.Ack(packet.TypePubrel, 1)
			c.WantAck(packet.TypePubcomp)
			c.Publish(packet.Outgoing{Topic: "t", QoS: 2, PacketID: refused})
			if a := c.WantAck(packet.TypePubrec); a.PacketID != refused || a.Reason != packet.ReasonSuccess {
				t.Errorf("once one was released, message %d is answered %#x", a.PacketID, a.Reason)
			}
			check(t, b.Audit())
		})
	}
}

// TestLongShareTakesMemoryOnce queues messages of a shared subscription with a long
// name, and restarts.
func TestLongShareTakesMemoryOnce(t *testing.T) {
	const messages, name = 600, 60_000
	b := start(t, t.TempDir())
	b.wait(keeps("c"), "$share/"+strings.Repeat("s", name)+"/t")
	for range messages {
		check(t, b.Publish(&engine.Message{Topic: "t", QoS: 1}))
	}
	dir := b.dir
	b.close()
	before := heap()
	b = start(t, dir)
	if grown := heap() - before; grown > messages*name/4 {
		t.Errorf("%d messages take %d MiB of memory", messages, grown>>20)
	}
	if n := b.queue("c"); n != messages {
		t.Errorf("%d messages wait, want %d", n, messages)
	}
}

// hold sends a message of QoS 2 that has no subscribers and is not released, if the connection
// is still open.
func hold(c *client, id uint16) {
	c.TrySend(packet.AppendPublish(nil, c.Version, &packet.Outgoing{Topic: "nobody", QoS: 2, PacketID: id})) //nolint:errcheck // the connection may have ended
}

// TestQuotasAreExactInClusters moves sessions between two engines while messages are published,
// suspends and resumes the engines, and recounts after each step.
func TestQuotasAreExactInClusters(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	quota := bounded(engine.Quota{SessionBytes: 20_000, QueuedBytes: 12_000}, engine.Quota{SessionBytes: 9000, QueuedBytes: 6000})
	nodes := []*broker{start(t, t.TempDir(), quota), start(t, t.TempDir(), quota)}
	for step := range 150 {
		at := dice.IntN(2)
		b, other := nodes[at], nodes[1-at]
		id := fmt.Sprint("c", dice.IntN(6))
		h := by(fmt.Sprint("u", id[1]%3), id)
		_, _, err := b.Client(id)
		_, _, elsewhere := other.Client(id)
		switch dice.IntN(8) {
		case 0, 1:
			if elsewhere != nil {
				if dice.IntN(2) == 0 {
					h.Will = &packet.Will{Topic: "t/1", Payload: make([]byte, dice.IntN(900)), QoS: 1, Delay: uint32(dice.IntN(2) * 1000)}
				}
				if c, err := b.TryConnect(h); err == nil {
					for n := range dice.IntN(90) {
						hold(c, uint16(n+1))
					}
					t.Cleanup(func() { c.Close() })
				}
			}
		case 2:
			b.SubscribeClient(id, fmt.Sprint([]string{"t/", "$share/g/t/"}[dice.IntN(2)], dice.IntN(4)), topics.Options{QoS: byte(dice.IntN(3)), ID: uint32(dice.IntN(3))}) //nolint:errcheck // may be beyond a bound
		case 3, 4, 5:
			m := &engine.Message{Topic: fmt.Sprint("t/", dice.IntN(4)), Payload: make([]byte, dice.IntN(500)), QoS: byte(dice.IntN(3)), Publisher: "p", Stamp: uint64(step + 1)}
			check(t, b.Publish(m))
		case 6:
			if err == nil {
				moveSession(t, b, other, id, nil)
			}
		default:
			if dice.IntN(3) == 0 {
				b.suspend()
				check(t, b.Audit())
				b.resume()
			}
		}
		for _, n := range nodes {
			until(t, fmt.Sprint("step ", step, " is counted"), func() bool { return n.Audit() == nil })
			if t.Failed() {
				t.Fatal(n.Audit())
			}
		}
	}
}
