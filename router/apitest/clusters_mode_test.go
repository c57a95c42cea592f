package apitest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/clusters"
	"signalbox/router/apitest"
)

// HPNodes returns the numbers of the nodes of the broker's cluster, if it is in one.
func (m *fakeNode) HPNodes(context.Context) ([]int, error) {
	if m.id == 0 || m.cluster.mode != broker.SyncHP {
		return nil, nil
	}
	return []int{1, 2, 3}, nil
}

// GetTTL returns the number of the requested node.
func (m *fakeNode) GetTTL(ctx context.Context, nodeID int) ([]int64, error) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	nodes, err := m.HPNodes(ctx)
	ask := func(id int) (int64, error) { return int64(100 + id), nil }
	switch {
	case nodeID != 0:
		ttl, err := broker.OneNode("getTTL", nodes, nodeID, ask)
		return []int64{ttl}, err
	case len(nodes) == 0 || err != nil:
		return []int64{100}, err
	}
	return broker.AskNodes("getTTL", nodes, ask)
}

// mode returns the cluster mode in the records of a broker, the single and those in
// lists; "" for none.
func (g *nodeFixture) mode(i int) string {
	g.t.Helper()
	r := brokerRecord(g.API, g.ids[i])
	var settings struct {
		Services []struct {
			ID string
			HA bool
		}
	}
	g.Root.Get("/api/projects/" + g.Project + "/settings").Want(200).Decode(&settings)
	for _, s := range settings.Services {
		if s.ID == r.ID && s.HA != r.HA {
			g.t.Errorf("%s: ha is %t in the settings and %t in the record", r.Name, s.HA, r.HA)
		}
	}
	if r.HA != (r.ClusterMode != nil) {
		g.t.Errorf("%s: ha %t, clustermode %v", r.Name, r.HA, r.ClusterMode)
	}
	if r.ClusterMode == nil {
		return ""
	}
	return *r.ClusterMode
}

func (g *nodeFixture) wantModes(want ...string) {
	g.t.Helper()
	got := make([]string, len(g.ids))
	for i := range got {
		got[i] = g.mode(i)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		g.t.Errorf("modes: got %q, want %q", got, want)
	}
}

// TestBrokerShowsItsCluster follows brokers into clusters of each mode and out of them,
// whatever was stored with them.
func TestBrokerShowsItsCluster(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"dynsec", "full", "hp"} {
		g := newNodeFixture(t, 4)
		g.Root.Put(g.BrokerAt(g.ids[0], ""), object{"ha": true, "clustermode": "dynsec"}).Want(204)
		g.wantModes("dynsec", "", "", "")
		body := g.body(3)
		body["syncmode"] = mode
		var made struct{ ID string }
		g.Root.Post(g.path(""), body).Want(200).Decode(&made)
		g.wantModes(mode, mode, mode, "")
		g.Root.Put(g.BrokerAt(g.ids[1], ""), object{"ha": false, "clustermode": nil, "description": "kept"}).Want(204)
		g.Root.Put(g.BrokerAt(g.ids[2], ""), object{"ha": true, "clustermode": mode}).Want(204)
		g.wantModes(mode, mode, mode, "")
		if got := brokerRecord(g.API, g.ids[1]).Description; got != "kept" {
			t.Errorf("description %q", got)
		}
		g.Root.Put(g.path("/"+made.ID+"/join"), g.node(3)).Want(204)
		g.wantModes(mode, mode, mode, mode)
		g.Root.Put(g.path("/"+made.ID+"/leave"), object{"nodeid": 2}).Want(204)
		g.wantModes(mode, "", mode, mode)
		g.down(true, g.nodes...)
		g.Root.Delete(g.path("/"+made.ID)).WantError(503, "BROKER_UNAVAILABLE")
		g.wantModes(mode, "", mode, mode)
		g.Root.Delete(g.path("/" + made.ID + "?purge=true")).Want(200)
		g.wantModes("", "", "", "")
	}
}

// TestClusterThatFailsLeavesNoMode has a node refuse.
func TestClusterThatFailsLeavesNoMode(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 2)
	g.ids = append(g.ids, addMosquitto(t, g.API))
	g.Root.Post(g.path(""), g.body(3)).WantError(405, "NOT_SUPPORTED")
	g.wantModes("", "", "")
}

// TestNodeIDs names nodes: of an HP cluster that the project knows, of one that only
// the broker knows, and without one.
func TestNodeIDs(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 3)
	viewer, ttl := g.Token("viewer"), func(i int, query string) string { return g.BrokerAt(g.ids[i], "/topictree/ttl"+query) }
	want := func(a *apitest.Response, body string) {
		t.Helper()
		if got := strings.TrimSpace(string(a.Want(200).Body)); got != body {
			t.Errorf("got %s, want %s", got, body)
		}
	}
	wantNone := func() {
		t.Helper()
		want(viewer.Get(ttl(1, "")), `{"ttl_sec":100}`)
		if got := viewer.Get(ttl(1, "?nodeid=1")).WantError(400, "INVALID_REQUEST").Fields(); fmt.Sprint(got) != "[query.nodeid]" {
			t.Errorf("bad fields %q", got)
		}
	}
	wantAll := func() {
		t.Helper()
		want(viewer.Get(ttl(1, "")), `{"ttls":[101,102,103]}`)
		want(viewer.Get(ttl(1, "?nodeid=3")), `{"ttl_sec":103}`)
		if e := viewer.Get(ttl(1, "?nodeid=4")).WantError(404, "NOT_FOUND").Error(); !strings.Contains(e.Message, "node 4") {
			t.Errorf("the node is not named: %q", e.Message)
		}
	}
	wantNone()
	made := g.create(3)
	wantNone()
	g.Root.Delete(g.path("/" + made.ID)).Want(200)
	body := g.body(3)
	body["syncmode"] = "hp"
	g.Root.Post(g.path(""), body).Want(200)
	wantAll()
	g.down(true, g.nodes...)
	g.Root.Delete(g.path("?purge=true")).Want(207)
	g.wantModes("", "", "")
	wantAll() // they are still together
}

// TestProjectWithClusters is not deleted unless its clusters are: also one that cannot
// be dissolved, with the connections of its nodes.
func TestProjectWithClusters(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var project struct{ ID string }
	api.Root.Post("/api/projects", object{"name": "plant"}).Want(200).Decode(&project)
	api.Project = project.ID
	g := newNodeFixtureIn(t, api, 2)
	g.create(2)
	far := broker.Target{ID: "00000000-0000-7000-8000-0000000000ff", Rev: 1, URL: "mqtt://127.0.0.1:1"}
	own := clusters.Node{Own: true, URL: far.URL, ClusterNodeRef: broker.ClusterNodeRef{BrokerID: "far", NodeID: 1, Address: "a", Port: 7000, Target: far}}
	if _, err := g.Handlers.ClusterRows().Create(t.Context(), clusters.Cluster{ProjectID: g.Project, Name: "lost", SyncMode: "hp", Nodes: []clusters.Node{own}}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Handlers.Brokers.Get(far); err != nil {
		t.Fatal(err)
	}
	path := "/api/projects/" + g.Project
	if e := g.Root.Delete(path).WantError(400, "CONFLICT").Error(); !strings.Contains(e.Message, "ha, lost") {
		t.Errorf("the clusters are not named: %q", e.Message)
	}
	g.Root.Delete(path + "?purge=true").Want(204)
	g.Root.Get(path).WantError(404, "NOT_FOUND")
	for i, m := range g.nodes {
		if m.id != 0 {
			t.Errorf("broker %d is in the cluster still", i+1)
		}
	}
	if _, err := g.Handlers.Brokers.Get(far); broker.KindOf(err) != broker.NotFound {
		t.Errorf("the node's own connection: %v", err)
	}
}
