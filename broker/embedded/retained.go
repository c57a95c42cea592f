package embedded

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// The server looks for retained messages without the lock under which it stores
// them. So storing one, between OnPublish and OnRetainMessage, excludes looking
// for them, between the SUBACK and the end of the SUBSCRIBE. Nothing blocks in
// between, but for the write to a subscriber that does not read: that takes at
// most the write timeout.

// OnRetainMessage comes right after a message was stored.
func (h *hook) OnRetainMessage(*mqtt.Client, packets.Packet, int64) {
	h.b.retained.Unlock()
}

// retain must be the last that OnPublish does with a message that passes.
func (b *Broker) retain(pk packets.Packet) {
	if pk.FixedHeader.Retain {
		b.retained.Lock()
	}
}

func (b *Broker) beginRetained(l *link) {
	b.retained.RLock()
	l.retained = true
}

func (b *Broker) endRetained(l *link) {
	if l.retained {
		l.retained = false
		b.retained.RUnlock()
	}
}
