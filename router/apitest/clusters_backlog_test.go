package apitest_test

import (
	"testing"

	"signalbox/broker"
)

// TestClusterShowsWhomNodesWaitFor over HTTP: the record of the cluster, its Raft status and the metrics.
func TestClusterShowsWhomNodesWaitFor(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3)
	first := all[0]
	path := formCluster(t, all, "hp")
	viewer := first.Token("viewer")
	backlog := func() []broker.Backlog {
		var c broker.Cluster
		viewer.Get(path).Want(200).Decode(&c)
		return c.Nodes[0].Backlog
	}
	waitFor(t, "no node waits for another one", func() bool { return backlog() == nil })
	all[2].Stop()
	waitFor(t, "the first node waits for the third one", func() bool {
		b := backlog()
		return len(b) == 1 && b[0] == broker.Backlog{NodeID: 3, Away: true, MaxBytes: 1 << 30}
	})
	if m := metrics(first.API); m[`signalbox_cluster_link_max_stored_bytes{node="3"}`] != "1.073741824e+09" {
		t.Errorf("the bound is %q", m[`signalbox_cluster_link_max_stored_bytes{node="3"}`])
	}
}
