package appliance

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/embedded"
	"signalbox/broker/embedded/mesh"
)

// meshMetrics tells Prometheus of the links to the other nodes of an HP cluster.
type meshMetrics struct{ broker *embedded.Broker }

// linkMetric is a metric of each link. They count since the other node became
// known.
type linkMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(f mesh.Figures) float64
}

func linkGauge(name, help string, of func(f mesh.Figures) float64) linkMetric {
	return linkMetric{prometheus.NewDesc("signalbox_cluster_link_"+name, help, clusterNodeLabels, nil), prometheus.GaugeValue, of}
}

func linkCounter(name, help string, of func(f mesh.Figures) int64) linkMetric {
	return linkMetric{prometheus.NewDesc("signalbox_cluster_link_"+name+"_total", help, clusterNodeLabels, nil), prometheus.CounterValue,
		func(f mesh.Figures) float64 { return float64(of(f)) }}
}

var linkMetrics = []linkMetric{
	linkGauge("up", "Whether messages can be sent to another node of an HP cluster.", func(f mesh.Figures) float64 {
		if f.Linked {
			return 1
		}
		return 0
	}),
	linkGauge("routes", "Filters that somebody is subscribed to at another node.", func(f mesh.Figures) float64 { return float64(f.Routes) }),
	linkGauge("waiting_messages", "Messages to be sent to another node or confirmed by it.", func(f mesh.Figures) float64 { return float64(f.Waiting) }),
	linkGauge("waiting_bytes", "Bytes of these messages.", func(f mesh.Figures) float64 { return float64(f.WaitingBytes) }),

	linkCounter("sent_messages", "Messages sent to another node.", func(f mesh.Figures) int64 { return f.Sent }),
	linkCounter("received_messages", "Messages received from another node.", func(f mesh.Figures) int64 { return f.Received }),
	linkCounter("sent_bytes", "Bytes sent to another node.", func(f mesh.Figures) int64 { return f.SentBytes }),
	linkCounter("received_bytes", "Bytes received from another node.", func(f mesh.Figures) int64 { return f.ReceivedBytes }),
	linkCounter("repeated_messages", "Messages sent again after a link broke.", func(f mesh.Figures) int64 { return f.Repeated }),
	linkCounter("dropped_messages", "Messages of QoS 0 for which there was no link or no room.", func(f mesh.Figures) int64 { return f.Dropped }),
	linkCounter("refused_messages", "Messages above QoS 0 for which there was no room, or that another node could not store.", func(f mesh.Figures) int64 { return f.Refused }),
	linkCounter("given_up_messages", "Messages above QoS 0 for a node that was gone.", func(f mesh.Figures) int64 { return f.GivenUp }),
}

// Describe tells which metrics there are.
func (meshMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, m := range linkMetrics {
		to <- m.desc
	}
}

// Collect tells them as they are now. There are six other nodes at most.
func (m meshMetrics) Collect(to chan<- prometheus.Metric) {
	for _, f := range m.broker.Links() {
		for _, l := range linkMetrics {
			to <- prometheus.MustNewConstMetric(l.desc, l.kind, l.of(f), strconv.Itoa(f.Node))
		}
	}
}
