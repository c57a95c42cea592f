package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/bridges"
)

// bridgeMetrics exports the connections of all bridges.
type bridgeMetrics struct{ host *bridges.Host }

var bridgeLabels = []string{"broker", "bridge", "connection"}

// connectionMetrics count since the service started, or since the last change of the
// connection.
var connectionMetrics = figureMetrics[bridges.Figure]{
	gaugeOf("signalbox_bridge_connected", "Whether the target of a bridge's connection is reached.", bridgeLabels, func(f bridges.Figure) int {
		if f.IsConnected {
			return 1
		}
		return 0
	}),
	gaugeOf("signalbox_bridge_queued_messages", "Messages that wait to be delivered.", bridgeLabels, func(f bridges.Figure) int64 { return f.QueuedMessages }),
	gaugeOf("signalbox_bridge_queued_bytes", "Bytes of the messages that wait to be delivered.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.QueuedBytes }),
	gaugeOf("signalbox_bridge_dead_letters", "Messages that the target does not take.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.DeadLetters }),
	counterOf("signalbox_bridge_received", "Messages taken from the broker, one for each mapping that they belong to.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.Received }),
	counterOf("signalbox_bridge_delivered", "Messages that the target has.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.Delivered }),
	counterOf("signalbox_bridge_dropped", "Messages that went because the queue was full, or because they expired.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.Dropped }),
	counterOf("signalbox_bridge_rejected", "Messages that became dead letters.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.Rejected }),
	counterOf("signalbox_bridge_retries", "Attempts at delivery that failed and were made again.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.Retries }),
	counterOf("signalbox_bridge_inbound", "Messages brought to the broker.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.Inbound }),
	counterOf("signalbox_bridge_looped", "Messages left out because they had been where they were to go.", bridgeLabels, func(f bridges.Figure) int64 { return f.Stats.Looped }),
}

// Describe implements [prometheus.Collector].
func (bridgeMetrics) Describe(to chan<- *prometheus.Desc) { connectionMetrics.describe(to) }

// Collect implements [prometheus.Collector].
func (m bridgeMetrics) Collect(to chan<- prometheus.Metric) {
	for id, engine := range byBroker(m.host.Engines()) {
		for f := range engine.Figures() {
			connectionMetrics.collect(to, f, id, f.Bridge, f.ConnectionName)
		}
	}
}
