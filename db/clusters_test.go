package db_test

import (
	"testing"

	"signalbox/db"
)

// cluster has two nodes: one by broker b of project p, one by its own credentials.
func cluster(id, project string) db.Cluster {
	return db.Cluster{ID: id, ProjectID: project, Name: "name of " + id, SyncMode: "dynsec", CreatedAt: at(8), Nodes: []db.ClusterNode{
		{ID: id + "-1", ClusterID: id, NodeID: 1, BrokerID: "broker of " + id, Name: "east", Address: "10.0.0.1", Port: 7000, URL: "mqtt://east"},
		{ID: id + "-2", ClusterID: id, NodeID: 2, BrokerID: "elsewhere", Name: "west", Address: "10.0.0.2", Port: 7000, Own: true, URL: "mqtts://west",
			Username: "admin", Secrets: []byte{0, 0xff}, VerifyCACert: true, CACert: "ca", ClientCert: "cert"},
	}}
}

func TestClusterIsReadAsWritten(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	one, bare := cluster("one", "p"), db.Cluster{ID: "bare", ProjectID: "p", Name: "bare", SyncMode: "hp", CreatedAt: at(7), Nodes: []db.ClusterNode{}}
	must(t, d.CreateCluster(ctx, one), d.CreateCluster(ctx, bare), d.CreateCluster(ctx, cluster("two", "q")))
	for _, want := range []db.Cluster{one, bare} {
		got, err := d.GetCluster(ctx, "p", want.ID)
		wantErr(t, err, nil)
		wantEqual(t, got, want)
	}
	all, err := d.ListClusters(ctx, "p")
	wantErr(t, err, nil)
	wantEqual(t, all, []db.Cluster{bare, one})
	none, err := d.ListClusters(ctx, "none")
	wantErr(t, err, nil)
	wantEqual(t, none, []db.Cluster{})
}

func TestClusterIsFoundInItsProjectOnly(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateCluster(ctx, cluster("one", "p")))
	_, err := d.GetCluster(ctx, "q", "one")
	wantErr(t, err, db.ErrNotFound)
	wantErr(t, d.DeleteCluster(ctx, "q", "one"), db.ErrNotFound)
	wantErr(t, d.CreateCluster(ctx, cluster("two", "none")), db.ErrNotFound)
}

func TestClusterThatClashesIsNotStored(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	one := cluster("one", "p")
	must(t, d.CreateCluster(ctx, one))
	for name, change := range map[string]func(*db.Cluster){
		"name":       func(c *db.Cluster) { c.Name = one.Name },
		"number":     func(c *db.Cluster) { c.Nodes[1].NodeID = 1 },
		"address":    func(c *db.Cluster) { c.Nodes[1].Address = c.Nodes[0].Address },
		"connection": func(c *db.Cluster) { c.Nodes[0].BrokerID = one.Nodes[0].BrokerID },
	} {
		c := cluster("two", "p")
		change(&c)
		if err := d.CreateCluster(ctx, c); err == nil {
			t.Errorf("a second %s was stored", name)
		} else {
			wantErr(t, err, db.ErrExists)
		}
		_, err := d.GetCluster(ctx, "p", "two")
		wantErr(t, err, db.ErrNotFound)
	}
	same := cluster("two", "q") // another project may use the name, and another port the address
	same.Name, same.Nodes[1].Address, same.Nodes[1].Port = one.Name, "10.0.0.1", 7001
	wantErr(t, d.CreateCluster(ctx, same), nil)
}

func TestClusterNodesComeAndGo(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	c := cluster("one", "p")
	must(t, d.CreateCluster(ctx, c))
	third := db.ClusterNode{ID: "three", ClusterID: "one", NodeID: 3, BrokerID: "elsewhere", Address: "10.0.0.3", Port: 7000, Own: true, URL: "mqtt://north"}
	wantErr(t, d.AddClusterNode(ctx, third), nil)
	wantErr(t, d.AddClusterNode(ctx, third), db.ErrExists)
	lost := third
	lost.ID, lost.ClusterID = "four", "none"
	wantErr(t, d.AddClusterNode(ctx, lost), db.ErrNotFound)
	wantErr(t, d.DeleteClusterNode(ctx, "one", 1), nil)
	wantErr(t, d.DeleteClusterNode(ctx, "one", 1), db.ErrNotFound)
	got, err := d.GetCluster(ctx, "p", "one")
	wantErr(t, err, nil)
	wantEqual(t, got.Nodes, []db.ClusterNode{c.Nodes[1], third})
}

func TestClusterTakesItsNodesWithIt(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.CreateCluster(ctx, cluster("one", "p")), d.DeleteCluster(ctx, "p", "one"), d.CreateCluster(ctx, cluster("one", "q")))
	wantErr(t, d.DeleteCluster(ctx, "p", "one"), db.ErrNotFound)
	must(t, d.DeleteProject(ctx, "q", true), d.CreateCluster(ctx, cluster("one", "p")))
}

// TestBrokerKnowsOfItsCluster follows a connection into a cluster and out of it.
// What was said of it before counts no more.
func TestBrokerKnowsOfItsCluster(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	c := cluster("one", "p")
	c.SyncMode, c.Nodes[0].BrokerID, c.Nodes[1].BrokerID = "hp", "b", "other"
	must(t, d.CreateBroker(ctx, connection("other", "p"))) // its id is that of a node that is reached otherwise
	row, err := d.GetBroker(ctx, "p", "b")
	wantErr(t, err, nil)
	want := func(mode string) {
		t.Helper()
		want := row
		want.NodeOf = mode
		got, err := d.GetBroker(ctx, "p", "b")
		wantErr(t, err, nil)
		wantEqual(t, got, want)
		other, err := d.GetBroker(ctx, "p", "other")
		wantErr(t, err, nil)
		wantEqual(t, other.NodeOf, "")
		all, err := d.ListBrokers(ctx, "p")
		wantErr(t, err, nil)
		wantEqual(t, all, []db.Broker{want, other})
	}
	want("")
	must(t, d.CreateCluster(ctx, c))
	row.HA, row.ClusterMode = false, ""
	want("hp")
	must(t, d.UpdateBroker(ctx, row))
	row.Rev++
	want("hp")
	must(t, d.DeleteClusterNode(ctx, "one", 1))
	want("")
	must(t, d.AddClusterNode(ctx, c.Nodes[0]))
	want("hp")
	must(t, d.DeleteCluster(ctx, "p", "one"))
	want("")
}

func TestHasSecrets(t *testing.T) {
	t.Parallel()
	d, ctx := world(t), t.Context()
	must(t, d.DeleteBroker(ctx, "p", "b"))
	has := func(want bool) {
		t.Helper()
		got, err := d.HasSecrets(ctx)
		wantErr(t, err, nil)
		wantEqual(t, got, want)
	}
	has(false)
	must(t, d.CreateBroker(ctx, connection("b", "p")))
	has(true)
	must(t, d.DeleteBroker(ctx, "p", "b"), d.CreateCluster(ctx, cluster("one", "p")))
	has(true)
}
