package embedded

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/sys"
)

// figures is the source of the broker's metrics.
type figures struct{ b *Broker }

// Read returns all metrics as they are now.
func (f figures) Read() sys.Reading {
	return f.read(f.b.engine.Counts())
}

// read returns all metrics with these of the engine.
func (f figures) read(c engine.Counts) sys.Reading {
	b, usage := f.b, f.b.limits.Usage()
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

// publishSys publishes the metrics that have changed.
func (b *Broker) publishSys() {
	for _, t := range b.sys.Sample() {
		b.engine.Publish(&engine.Message{ //nolint:errcheck // nothing of it is stored
			Topic: t.Name, Payload: []byte(t.Value), Retain: true, CreatedAt: b.timeline.Now().UnixMilli(),
		})
	}
}

// SysTopics returns the broker's own $SYS topics as they are now and the samples of the
// last ten minutes, oldest first.
func (b *Broker) SysTopics(context.Context) (now broker.SysTopics, history []broker.SysTopics, err error) {
	return b.sys.Figures(), b.sys.History(), nil
}

// SysUpdate returns the topics whose values are known without a pass over all sessions.
func (b *Broker) SysUpdate(time.Time) (broker.SysTopics, bool) {
	return b.sys.Brief(figures{b}.read(b.engine.Totals())), true
}

// SysHistory returns the samples that follow the one of a date.
func (b *Broker) SysHistory(after int64) []broker.SysTopics { return b.sys.HistoryAfter(after) }

// Collector returns the broker's metrics for Prometheus.
func (b *Broker) Collector() prometheus.Collector { return b.sys.Collector() }
