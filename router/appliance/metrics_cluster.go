package appliance

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/broker/embedded"
)

// clusterMetrics exports the state of the embedded broker as a node of a cluster. A
// broker that cannot be a node has no such metrics; some are only those of a leader or
// of a follower.
type clusterMetrics struct{ broker *embedded.Broker }

var (
	clusterNodeLabels = []string{"node"}

	clusterInfo = prometheus.NewDesc("signalbox_cluster_info",
		"The cluster that the broker is a node of, and its number there.", []string{"cluster", "syncmode", "node"}, nil)
	clusterState = prometheus.NewDesc("signalbox_cluster_state",
		"State of the broker in its cluster's consensus: 0 unavailable, 1 follower, 2 candidate, 3 leader.", nil, nil)
	clusterVoters = prometheus.NewDesc("signalbox_cluster_voters",
		"Nodes of the cluster that have a vote.", nil, nil)
	clusterInContact = prometheus.NewDesc("signalbox_cluster_voters_in_contact",
		"Nodes with a vote that the leader is in contact with, itself included. Told by the leader.", nil, nil)
	clusterLastContact = prometheus.NewDesc("signalbox_cluster_last_contact_seconds",
		"Time since the broker heard of its leader. Told by those who do not lead.", nil, nil)
	clusterTerm = prometheus.NewDesc("signalbox_cluster_term",
		"Term of the consensus, which grows with each election.", nil, nil)
	clusterCommitted = prometheus.NewDesc("signalbox_cluster_commit_index",
		"Last entry of the log that the broker knows to be agreed upon.", nil, nil)
	clusterApplied = prometheus.NewDesc("signalbox_cluster_applied_index",
		"Last entry of the log that the broker has applied.", nil, nil)
	clusterStored = prometheus.NewDesc("signalbox_cluster_stored_index",
		"Last entry of the log that the broker has stored.", nil, nil)
	clusterAppendError = prometheus.NewDesc("signalbox_cluster_append_error",
		"Whether the broker cannot store the cluster's log, since the last time that it tried.", nil, nil)
	clusterAppendFailures = prometheus.NewDesc("signalbox_cluster_append_failures_total",
		"Changes of the cluster's log that the broker could not store since it was started.", nil, nil)
	clusterLag = prometheus.NewDesc("signalbox_cluster_lag_entries",
		"Entries of the log that the broker knows to be agreed upon and has yet to apply.", nil, nil)
	clusterDiskFree = prometheus.NewDesc("signalbox_cluster_disk_free_bytes",
		"Bytes that are free on the disk of the cluster's files.", nil, nil)
	clusterDrained = prometheus.NewDesc("signalbox_cluster_drained",
		"Whether the broker is drained: it leaves its clients to the other nodes.", nil, nil)
	clusterSessionsLeft = prometheus.NewDesc("signalbox_cluster_sessions_left",
		"Sessions that a drained broker has yet to move to other nodes.", nil, nil)
	clusterForwarded = prometheus.NewDesc("signalbox_cluster_forwarded_total",
		"Requests that the broker gave its leader since it was started.", nil, nil)
	clusterRefused = prometheus.NewDesc("signalbox_cluster_refused_connections_total",
		"Connections to the cluster port of somebody who is no member, since the broker was started.", nil, nil)
	clusterApply = prometheus.NewDesc("signalbox_cluster_apply_seconds",
		"Time from a change's proposal at the broker until it was agreed upon and applied there.", nil, nil)

	clusterNodeRole = prometheus.NewDesc("signalbox_cluster_node_role",
		"Role of a node: 0 standby, 1 voter, 2 spare. Told by the leader, as is all of single nodes.", clusterNodeLabels, nil)
	clusterNodeApplied = prometheus.NewDesc("signalbox_cluster_node_applied_index",
		"Last entry of the log that a node had applied when it was last asked.", clusterNodeLabels, nil)
	clusterNodeUp = prometheus.NewDesc("signalbox_cluster_node_up",
		"Whether a node answers the leader.", clusterNodeLabels, nil)
	clusterNodeSkew = prometheus.NewDesc("signalbox_cluster_node_clock_skew_seconds",
		"By how much the clock of a node is at least ahead of the leader's.", clusterNodeLabels, nil)
)

// Describe implements [prometheus.Collector].
func (clusterMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{clusterInfo, clusterState, clusterVoters, clusterInContact, clusterLastContact, clusterTerm,
		clusterCommitted, clusterApplied, clusterStored, clusterAppendError, clusterAppendFailures, clusterLag, clusterDiskFree, clusterDrained, clusterSessionsLeft, clusterForwarded, clusterRefused, clusterApply, clusterNodeRole, clusterNodeApplied, clusterNodeUp, clusterNodeSkew} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m clusterMetrics) Collect(to chan<- prometheus.Metric) {
	f, able := m.broker.ClusterFigures()
	if !able {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if f.Self != 0 {
		gauge(clusterInfo, 1, f.Name, f.SyncMode, strconv.Itoa(f.Self))
	}
	gauge(clusterState, float64(f.State))
	gauge(clusterVoters, float64(f.Voters))
	gauge(clusterTerm, float64(f.Term))
	gauge(clusterCommitted, float64(f.CommitIndex))
	gauge(clusterApplied, float64(f.LastApplied))
	gauge(clusterStored, float64(f.LastStored))
	collectHealth(gauge, f)
	to <- prometheus.MustNewConstMetric(clusterAppendFailures, prometheus.CounterValue, float64(f.Failures))
	if f.Leading {
		gauge(clusterInContact, float64(f.InContact))
		collectNodes(gauge, f)
	} else if f.Self != 0 {
		gauge(clusterLastContact, f.LastContact.Seconds())
	}
	to <- prometheus.MustNewConstMetric(clusterRefused, prometheus.CounterValue, float64(f.Refused))
	to <- prometheus.MustNewConstMetric(clusterForwarded, prometheus.CounterValue, float64(f.Forwarded))
	to <- prometheus.MustNewConstHistogram(clusterApply, f.Applied.Count, f.Applied.Sum, f.Applied.Buckets)
}

// collectHealth collects what an operator has to watch.
func collectHealth(gauge func(*prometheus.Desc, float64, ...string), f embedded.ClusterFigures) {
	gauge(clusterAppendError, oneIf(f.AppendErr != nil))
	if gauge(clusterDrained, oneIf(f.Drained)); f.Drained {
		gauge(clusterSessionsLeft, float64(f.SessionsLeft))
	}
	gauge(clusterLag, float64(f.Lag))
	if f.DiskFree >= 0 {
		gauge(clusterDiskFree, float64(f.DiskFree))
	}
}

// oneIf returns the value of a gauge of whether something holds.
func oneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// collectNodes collects the metrics of each node. There are at most seven.
func collectNodes(gauge func(*prometheus.Desc, float64, ...string), f embedded.ClusterFigures) {
	for _, n := range f.Nodes {
		label := strconv.Itoa(int(n.NodeID))
		self := int(n.NodeID) == f.Self
		gauge(clusterNodeRole, float64(n.Role), label)
		gauge(clusterNodeApplied, float64(n.LastApplied), label)
		gauge(clusterNodeUp, oneIf(self || n.Err == nil && n.LastContact > 0), label)
		gauge(clusterNodeSkew, n.Skew.Seconds(), label)
	}
}
