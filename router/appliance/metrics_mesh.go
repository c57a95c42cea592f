package appliance

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/embedded"
	"signalbox/broker/embedded/cluster/mesh"
)

// meshMetrics exports the links to the other nodes of an HP cluster.
type meshMetrics struct{ broker *embedded.Broker }

// linkMetrics count since the other node became known.
var linkMetrics = figureMetrics[mesh.Figures]{
	gaugeOf("signalbox_cluster_link_up", "Whether messages can be sent to another node of an HP cluster.", clusterNodeLabels, func(f mesh.Figures) float64 {
		return boolean(f.Linked)
	}),
	gaugeOf("signalbox_cluster_link_routes", "Filters that somebody is subscribed to at another node.", clusterNodeLabels, func(f mesh.Figures) int { return f.Routes }),
	gaugeOf("signalbox_cluster_link_routes_known", "Whether the filters of another node are known; until then messages for its sessions are neither delivered nor counted.", clusterNodeLabels, func(f mesh.Figures) float64 {
		return boolean(f.RoutesKnown)
	}),
	gaugeOf("signalbox_cluster_link_waiting_messages", "Messages to be sent to another node or confirmed by it.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Waiting }),
	gaugeOf("signalbox_cluster_link_waiting_bytes", "Bytes of these messages.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.WaitingBytes }),
	gaugeOf("signalbox_cluster_link_stored_messages", "Messages stored on the disk until another node, which is or was away, has them.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Stored }),
	gaugeOf("signalbox_cluster_link_stored_bytes", "Bytes of these messages, which cluster.max_backlog bounds.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.StoredBytes }),
	gaugeOf("signalbox_cluster_link_max_stored_bytes", "Bound of these bytes, beyond which messages for the node are refused.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.MaxStoredBytes }),

	counterOf("signalbox_cluster_link_sent_messages", "Messages sent to another node.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Sent }),
	counterOf("signalbox_cluster_link_received_messages", "Messages received from another node.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Received }),
	counterOf("signalbox_cluster_link_sent_bytes", "Bytes sent to another node.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.SentBytes }),
	counterOf("signalbox_cluster_link_received_bytes", "Bytes received from another node.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.ReceivedBytes }),
	counterOf("signalbox_cluster_link_repeated_messages", "Messages sent again after a link broke.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Repeated }),
	counterOf("signalbox_cluster_link_dropped_messages", "Messages of QoS 0 for which there was no link or no room.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Dropped }),
	counterOf("signalbox_cluster_link_refused_messages", "Messages above QoS 0 for which there was no room, or that could not be stored, here or by another node.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Refused }),
	counterOf("signalbox_cluster_link_given_up_messages", "Messages above QoS 0 that were acknowledged though a node did not get them, as it was gone.", clusterNodeLabels, func(f mesh.Figures) int64 { return f.Abandoned }),
}

// boolean returns 1 for true.
func boolean(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// lostMessages count since the broker was started.
var lostMessages = prometheus.NewDesc("signalbox_cluster_lost_messages_total",
	"Messages above QoS 0 that were acknowledged and are lost to sessions at another node of an HP cluster, once for each node.",
	[]string{"reason"}, nil)

// Describe implements [prometheus.Collector].
func (meshMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- lostMessages
	linkMetrics.describe(to)
}

// Collect implements [prometheus.Collector]. There are at most six other nodes.
func (m meshMetrics) Collect(to chan<- prometheus.Metric) {
	if losses := m.broker.Losses(); losses != nil {
		for _, r := range mesh.LossReasons() {
			to <- prometheus.MustNewConstMetric(lostMessages, prometheus.CounterValue, float64(losses.Total(r)), r.String())
		}
	}
	for _, f := range m.broker.Links() {
		linkMetrics.collect(to, f, strconv.Itoa(f.Node))
	}
}
