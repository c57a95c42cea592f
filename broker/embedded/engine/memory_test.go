package engine_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// heap returns the memory in use after a garbage collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestQueuesOfAbsentClientsTakeNoMemory queues large messages for clients that are away, and
// restarts: the payloads are not in memory before or after, and are delivered all the same.
func TestQueuesOfAbsentClientsTakeNoMemory(t *testing.T) {
	const clients, messages, size = 4, 16, 1 << 20
	const bound = clients * messages * size / 4
	b := start(t, t.TempDir())
	for i := range clients {
		b.wait(keeps(fmt.Sprint("c", i)), fmt.Sprint("t/", i))
	}
	before := heap()
	for i := range clients {
		for n := range messages {
			check(t, b.Publish(&engine.Message{Topic: fmt.Sprint("t/", i), Payload: bytes.Repeat([]byte{byte(n)}, size), QoS: 1}))
		}
	}
	if grown := heap() - before; grown > bound {
		t.Errorf("%d MiB in queues take %d MiB of memory", clients*messages*size>>20, grown>>20)
	}
	dir := b.dir
	b.close()
	before = heap()
	b = start(t, dir)
	if grown := heap() - before; grown > bound {
		t.Errorf("after a restart, %d MiB in queues take %d MiB of memory", clients*messages*size>>20, grown>>20)
	}
	for i := range clients {
		c := b.Connect(keeps(fmt.Sprint("c", i)))
		for n := range messages {
			m := c.WantMessage()
			if m.Payload != string(bytes.Repeat([]byte{byte(n)}, size)) || m.ID != uint16(n+1) {
				t.Fatalf("client %d got message %d of %d bytes, want number %d", i, m.ID, len(m.Payload), n+1)
			}
			c.Ack(packet.TypePuback, m.ID)
		}
	}
	b.counted()
}

// TestManySlowConsumersTakeLittleMemory connects clients that read one message of many. All
// their queues together stay within QueueMemory, beyond the minimum of each.
func TestManySlowConsumersTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const clients, messages, size, most = 12, 96, 8 << 10, 1 << 20
	b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.QueueMemory = most })
	for i := range clients {
		b.wait(keeps(fmt.Sprint("c", i)), "t")
	}
	for range messages {
		check(t, b.Publish(&engine.Message{Topic: "t", Payload: make([]byte, size), QoS: 1}))
	}
	slow := make([]*client, clients)
	for i := range slow {
		h := keeps(fmt.Sprint("c", i))
		h.ReceiveMaximum = 1
		slow[i] = b.Connect(h)
		slow[i].Ack(packet.TypePuback, slow[i].WantMessage().ID)
	}
	if got := b.QueuedMemory(); got > 2*most {
		t.Errorf("%d clients have %d KiB in memory, want %d at most", clients, got>>10, most>>10)
	}
	for _, c := range slow {
		for range messages - 1 {
			c.Ack(packet.TypePuback, c.WantMessage().ID)
		}
	}
	b.counted()
}

// TestSlowConsumerTakesLittleMemory connects a client that acknowledges nothing. Messages that
// were not sent to it are in the store only.
func TestSlowConsumerTakesLittleMemory(t *testing.T) {
	const messages, size = 48, 1 << 20
	b := start(t, t.TempDir())
	h := keeps("slow")
	h.ReceiveMaximum = 1
	slow := b.Connect(h)
	slow.Subscribe("t", 1)
	before := heap()
	for n := range messages {
		check(t, b.Publish(&engine.Message{Topic: "t", Payload: bytes.Repeat([]byte{byte(n)}, size), QoS: 1}))
	}
	if grown := heap() - before; grown > messages*size/4 {
		t.Errorf("%d MiB in a queue take %d MiB of memory", messages*size>>20, grown>>20)
	}
	for n := range messages {
		m := slow.WantMessage()
		if m.Payload[0] != byte(n) || len(m.Payload) != size {
			t.Fatalf("got %d bytes of %d, want message %d", len(m.Payload), m.Payload[0], n)
		}
		slow.Ack(packet.TypePuback, m.ID)
	}
	until(t, "all is acknowledged", func() bool { return b.queue("slow") == 0 })
	check(t, b.Audit())
}
