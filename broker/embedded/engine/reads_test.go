package engine_test

import (
	"context"
	"sync/atomic"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// counted is a store that counts the messages that are read from it.
type counted struct {
	engine.Store
	read *atomic.Int64
}

func (c counted) Messages(ctx context.Context, ids []uint64) ([]*engine.Message, error) {
	c.read.Add(int64(len(ids)))
	return c.Store.Messages(ctx, ids)
}

// TestLonelySharedQueueIsNotRead connects and disconnects the only member of a shared
// subscription. Its queue is not read for other members.
func TestLonelySharedQueueIsNotRead(t *testing.T) {
	t.Parallel()
	const messages = 100
	var read atomic.Int64
	b := start(t, t.TempDir(), func(_ *engine.Config, p *engine.Parts) { p.Store = counted{p.Store, &read} })
	b.wait(keeps("c"), "$share/g/t")
	for range messages {
		check(t, b.Publish(&engine.Message{Topic: "t", QoS: 1}))
	}
	for range 3 {
		read.Store(0)
		c := b.Connect(keeps("c"))
		c.WantMessage()
		c.Close()
		until(t, "the client is gone", func() bool { i, _, err := b.Client("c"); return err == nil && !i.Connected })
		b.Connect(fresh("other")).Disconnect()
		if n := read.Load(); n > messages {
			t.Errorf("%d messages were read for one client that came and went, %d wait", n, messages)
		}
	}
	other := b.Connect(fresh("other"))
	other.Subscribe("$share/g/t", 1)
	b.Connect(keeps("c")).Close()
	got := 0
	for ; got < messages-20; got++ {
		other.Ack(packet.TypePuback, other.WantMessage().ID)
	}
	b.counted()
}
