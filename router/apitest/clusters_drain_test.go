package apitest_test

import (
	"testing"

	"signalbox/broker"
)

// TestClusterNodeIsDrained over HTTP: the record of the cluster shows it, new clients are refused
// there, and the node accepts them afterwards.
func TestClusterNodeIsDrained(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3)
	first, last := all[0], all[2]
	path := formCluster(t, all, "hp")
	viewer, editor := first.Token("viewer"), first.Token("editor")
	d := join(t, last.API, 5, "mover", asAdmin, persistent)
	d.SubscribeTo(filter("plant/#", 1))
	d.Drop()
	waitFor(t, "the session waits", func() bool { return !detail(last.API, "mover").Connected })
	drain := path + "/nodes/3/drain"
	viewer.Put(drain, nil).WantError(403, "FORBIDDEN")
	editor.Put(path+"/nodes/9/drain", nil).WantError(404, "NOT_FOUND")
	editor.Put(path+"/nodes/x/drain", nil).WantError(404, "NOT_FOUND")
	editor.Delete(path+"/nodes/-1/drain").WantError(404, "NOT_FOUND")
	editor.Put(drain, nil).Want(204)
	editor.Put(drain, nil).Want(204)
	node := func() broker.ClusterNode {
		var c broker.Cluster
		viewer.Get(path).Want(200).Decode(&c)
		if c.State != "active" {
			t.Errorf("the cluster is %s", c.State)
		}
		return c.Nodes[2]
	}
	waitFor(t, "the sessions are at other nodes", func() bool { n := node(); return n.Drained && n.SessionsLeft == 0 })
	last.Root.Get(last.At("/client-inspect/detail?clientid=mover")).WantError(404, "NOT_FOUND")
	if m := metrics(last.API); m["signalbox_cluster_drained"] != "1" || m["signalbox_cluster_sessions_left"] != "0" {
		t.Errorf("got %s, %s", m["signalbox_cluster_drained"], m["signalbox_cluster_sessions_left"])
	}
	if m := metrics(first.API); m["signalbox_cluster_drained"] != "0" {
		t.Errorf("got %s of a node that is not drained", m["signalbox_cluster_drained"])
	}
	editor.Put(path+"/nodes/2/drain", nil).Want(204)
	editor.Put(path+"/nodes/1/drain", nil).WantError(400, "CONFLICT")
	editor.Delete(drain).Want(204)
	viewer.Delete(path+"/nodes/2/drain").WantError(403, "FORBIDDEN")
	editor.Delete(path + "/nodes/2/drain").Want(204)
	if n := node(); n.Drained {
		t.Errorf("the node is drained: %+v", n)
	}
	join(t, last.API, 5, "mover", asAdmin, persistent)
}

// TestClusterNodeIsNotDrained refuses what a broker, or its cluster, cannot do.
func TestClusterNodeIsNotDrained(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 3)
	made := g.create(3)
	g.Root.Put(g.path("/"+made.ID+"/nodes/2/drain"), nil).WantError(405, "NOT_SUPPORTED")
	g.Root.Delete(g.path("/" + made.ID + "/nodes/2/drain")).Want(204)
	g.down(true, g.nodes[1])
	g.Root.Put(g.path("/"+made.ID+"/nodes/2/drain"), nil).WantError(503, "BROKER_UNAVAILABLE")
}
