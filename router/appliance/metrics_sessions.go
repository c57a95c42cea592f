package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/embedded"
	"signalbox/broker/embedded/cluster/sessions"
)

// sessionMetrics exports the sessions that move between the nodes of an HP cluster.
type sessionMetrics struct{ broker *embedded.Broker }

// sessionFigures count since the broker became a node.
var sessionFigures = figureMetrics[sessions.Figures]{
	counterOf("signalbox_cluster_claims", "Clients that connected to this node of an HP cluster.", nil, func(f sessions.Figures) int64 { return f.Claims }),
	counterOf("signalbox_cluster_claims_later", "Clients that were refused, because a later connection has the session.", nil, func(f sessions.Figures) int64 { return f.Superseded }),
	counterOf("signalbox_cluster_claims_without_node", "Nodes that clients were let in without, for each time.", nil, func(f sessions.Figures) int64 { return f.Skipped }),
	counterOf("signalbox_cluster_sessions_taken", "Sessions that came from other nodes.", nil, func(f sessions.Figures) int64 { return f.Received }),
	counterOf("signalbox_cluster_sessions_given", "Sessions that went to other nodes.", nil, func(f sessions.Figures) int64 { return f.HandedOver }),
	counterOf("signalbox_cluster_sessions_kept", "Sessions that were to go to another node and stayed.", nil, func(f sessions.Figures) int64 { return f.Kept }),
	counterOf("signalbox_cluster_sessions_reconciled", "Sessions that were at two nodes and were made one.", nil, func(f sessions.Figures) int64 { return f.Reconciled }),
	counterOf("signalbox_cluster_sessions_messages", "Messages that came with sessions from other nodes.", nil, func(f sessions.Figures) int64 { return f.Messages }),
	gaugeOf("signalbox_cluster_sessions_under_way", "Sessions that are being given to other nodes.", nil, func(f sessions.Figures) int { return f.HandoffsInProgress }),
	gaugeOf("signalbox_cluster_sessions_in_doubt", "Sessions that may have moved to a node that does not respond.", nil, func(f sessions.Figures) int { return f.InDoubt }),
	gaugeOf("signalbox_cluster_claims_unanswered_nodes", "Nodes that do not answer claims.", nil, func(f sessions.Figures) int { return f.Unreachable }),
}

// Describe implements [prometheus.Collector].
func (sessionMetrics) Describe(to chan<- *prometheus.Desc) { sessionFigures.describe(to) }

// Collect implements [prometheus.Collector].
func (m sessionMetrics) Collect(to chan<- prometheus.Metric) {
	if f, ok := m.broker.Claims(); ok {
		sessionFigures.collect(to, f)
	}
}
