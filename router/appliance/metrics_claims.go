package appliance

import (
	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/embedded"
	"signalbox/broker/embedded/claims"
)

// claimMetrics tells Prometheus of clients that come from one node of an HP cluster to
// another, with their sessions.
type claimMetrics struct{ broker *embedded.Broker }

// claimMetric counts since the broker became a node.
type claimMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(f claims.Figures) float64
}

func claimCounter(name, help string, of func(f claims.Figures) int64) claimMetric {
	return claimMetric{prometheus.NewDesc("signalbox_cluster_"+name+"_total", help, nil, nil), prometheus.CounterValue,
		func(f claims.Figures) float64 { return float64(of(f)) }}
}

func claimGauge(name, help string, of func(f claims.Figures) int) claimMetric {
	return claimMetric{prometheus.NewDesc("signalbox_cluster_"+name, help, nil, nil), prometheus.GaugeValue,
		func(f claims.Figures) float64 { return float64(of(f)) }}
}

var claimsMetrics = []claimMetric{
	claimCounter("claims", "Clients that connected to this node of an HP cluster.", func(f claims.Figures) int64 { return f.Claims }),
	claimCounter("claims_later", "Clients that were refused, because a later connection has the session.", func(f claims.Figures) int64 { return f.Later }),
	claimCounter("claims_without_node", "Nodes that clients were let in without, for each time.", func(f claims.Figures) int64 { return f.PassedOver }),
	claimCounter("sessions_taken", "Sessions that came from other nodes.", func(f claims.Figures) int64 { return f.Taken }),
	claimCounter("sessions_given", "Sessions that went to other nodes.", func(f claims.Figures) int64 { return f.Given }),
	claimCounter("sessions_kept", "Sessions that were to go to another node and stayed.", func(f claims.Figures) int64 { return f.Kept }),
	claimCounter("sessions_reconciled", "Sessions that were at two nodes and were made one.", func(f claims.Figures) int64 { return f.Reconciled }),
	claimCounter("sessions_messages", "Messages that came with sessions from other nodes.", func(f claims.Figures) int64 { return f.Messages }),
	claimGauge("sessions_under_way", "Sessions that are being given to other nodes.", func(f claims.Figures) int { return f.Waiting }),
	claimGauge("claims_unanswered_nodes", "Nodes that do not answer claims.", func(f claims.Figures) int { return f.Unanswered }),
}

// Describe tells which metrics there are.
func (claimMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, m := range claimsMetrics {
		to <- m.desc
	}
}

// Collect tells them as they are now.
func (m claimMetrics) Collect(to chan<- prometheus.Metric) {
	f, ok := m.broker.Claims()
	if !ok {
		return
	}
	for _, c := range claimsMetrics {
		to <- prometheus.MustNewConstMetric(c.desc, c.kind, c.of(f))
	}
}
