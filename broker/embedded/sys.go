package embedded

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/sys"
)

// figures are where what the broker tells about itself comes from.
type figures struct{ b *Broker }

// Read gives all figures as they are now.
func (f figures) Read() sys.Reading {
	b := f.b
	c, usage := b.engine.Counts(), b.limits.Usage()
	return sys.Reading{
		Counts:       c,
		WireReceived: b.traffic.Received.Load() + c.BytesReceived,
		WireSent:     b.traffic.Sent.Load() + c.BytesSent,
		Accepted:     b.traffic.Accepted.Load(),
		Lost:         b.traffic.Lost(),
		Open:         int64(usage.Open),
		HalfOpen:     int64(usage.HalfOpen),
		LoginBytes:   usage.LoginBytes,
		Stored:       c.Retained + c.Queued,
		StoredBytes:  c.RetainedBytes + c.QueuedBytes,
		NotTracked:   b.tree.NotTracked(),
		StoreFails:   b.store.Err() != nil,
	}
}

// tellOfItself publishes what changed of the broker's figures.
func (b *Broker) tellOfItself() {
	for _, t := range b.sys.Sample() {
		b.engine.Publish(&engine.Message{ //nolint:errcheck // nothing of it is stored
			Topic: t.Name, Payload: []byte(t.Value), Retain: true, CreatedAt: b.timeline.Now().UnixMilli(),
		})
	}
}

// SysTopics gives the broker's own $SYS topics as they are now and the samples
// of the last ten minutes, oldest first.
func (b *Broker) SysTopics(context.Context) (now broker.SysTopics, history []broker.SysTopics, err error) {
	return b.sys.Figures(), b.sys.History(), nil
}

// Collector gives the broker's figures to Prometheus.
func (b *Broker) Collector() prometheus.Collector { return b.sys.Collector() }
