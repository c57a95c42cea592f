package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker"
	"signalbox/broker/streams"
)

// streamMetrics exports the outcome of the messages of all streams.
type streamMetrics struct{ host *streams.Host }

var (
	streamLabels = []string{"broker", "stream"}

	streamMessages = prometheus.NewDesc("signalbox_stream_messages_total",
		"Messages of a stream since the service or the stream began, by what became of them.", append(streamLabels, "outcome"), nil)
	streamKept = prometheus.NewDesc("signalbox_stream_kept_messages",
		"Messages that a stream keeps.", streamLabels, nil)
	streamBytes = prometheus.NewDesc("signalbox_stream_kept_bytes",
		"Bytes of the messages that a stream keeps.", streamLabels, nil)
	streamReplaying = prometheus.NewDesc("signalbox_stream_replaying",
		"Whether a replay of the stream runs.", streamLabels, nil)
)

// Describe implements [prometheus.Collector].
func (streamMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{streamMessages, streamKept, streamBytes, streamReplaying} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m streamMetrics) Collect(to chan<- prometheus.Metric) {
	for id, engine := range byBroker(m.host.Engines()) {
		for _, s := range engine.Streams() {
			collectStream(to, id, s)
		}
	}
}

func collectStream(to chan<- prometheus.Metric, id string, s broker.Stream) {
	for outcome, n := range map[string]int64{
		"received": s.Stats.Received, "republished": s.Stats.Republished, "persisted": s.Stats.Persisted,
		"replayed": s.Stats.Replayed, "filtered": s.Stats.Filtered, "invalid": s.Stats.Invalid,
		"dropped": s.Stats.Dropped, "evicted": s.Stats.Evicted, "expired": s.Stats.Expired,
	} {
		to <- prometheus.MustNewConstMetric(streamMessages, prometheus.CounterValue, float64(n), id, s.StreamName, outcome)
	}
	to <- prometheus.MustNewConstMetric(streamKept, prometheus.GaugeValue, float64(s.Stats.Messages), id, s.StreamName)
	to <- prometheus.MustNewConstMetric(streamBytes, prometheus.GaugeValue, float64(s.Stats.Bytes), id, s.StreamName)
	to <- prometheus.MustNewConstMetric(streamReplaying, prometheus.GaugeValue, oneIf(s.Replaying), id, s.StreamName)
}
