package apitest_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/clusters"
	"signalbox/broker/control"
	"signalbox/db"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// fakeCluster is the cluster that scripted brokers are in.
type fakeCluster struct {
	mu     sync.Mutex // protects all that is below, and the members
	name   string
	mode   string
	leader int
	nodes  map[int]*fakeNode
}

// fakeNode is a broker that only executes the commands of clusters.
type fakeNode struct {
	broker.Broker
	cluster *fakeCluster
	id      int // 0 if it is in no cluster
	down    bool
	fault   error // the error of every command, nil for none
}

func (m *fakeNode) Status() broker.Status               { return broker.Status{Connected: true} }
func (m *fakeNode) SysHistory(int64) []broker.SysTopics { return nil }
func (m *fakeNode) Capabilities() []broker.Capability   { return []broker.Capability{broker.CapCluster} }

func (m *fakeNode) AskHA(ctx context.Context, c control.HACommand, data any) error {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if m.down {
		return &broker.Error{Kind: broker.Unavailable, Op: c.Name(), Msg: "the broker refuses connections"}
	}
	if m.fault != nil {
		return m.fault
	}
	return control.ReadHA(c, control.HA(ctx, m, c.Encode("x")), "x", data)
}

func (m *fakeNode) join(nodes []control.HANode) error {
	if m.id != 0 {
		return control.ErrInCluster
	}
	at := slices.IndexFunc(nodes, func(n control.HANode) bool { return n.Mine })
	m.id = nodes[at].NodeID
	m.cluster.nodes[m.id] = m
	return nil
}

func (m *fakeNode) CreateCluster(_ context.Context, s control.HASpec) (control.HACreated, error) {
	err := m.join(s.Nodes)
	m.cluster.name, m.cluster.mode, m.cluster.leader = s.ClusterName, s.SyncMode, m.id
	return control.HACreated{}, err
}
func (m *fakeNode) JoinCluster(_ context.Context, s control.HASpec) error { return m.join(s.Nodes) }
func (m *fakeNode) AddNode(context.Context, string, control.HANode) (control.HAAdded, error) {
	return control.HAAdded{}, nil
}
func (m *fakeNode) RemoveNode(_ context.Context, _ string, n control.HANode) error {
	gone, ok := m.cluster.nodes[n.NodeID]
	if !ok {
		return control.ErrNoNode
	}
	delete(m.cluster.nodes, n.NodeID)
	gone.id = 0
	return nil
}
func (m *fakeNode) LeaveCluster(ctx context.Context, name string, n control.HANode) error {
	return m.RemoveNode(ctx, name, n)
}
func (m *fakeNode) DeleteCluster(context.Context, string) error {
	for _, s := range m.cluster.nodes {
		s.id = 0
	}
	clear(m.cluster.nodes)
	return nil
}
func (m *fakeNode) DrainNode(context.Context, string) error      { return control.ErrNoDrain }
func (m *fakeNode) UndrainNode(context.Context, string) error    { return nil }
func (m *fakeNode) UndoJoin(context.Context, string) error       { return control.ErrNothingKept }
func (m *fakeNode) SetLeader(context.Context, string, int) error { return nil }
func (m *fakeNode) GetCluster(context.Context) (control.HACluster, error) {
	if m.id == 0 {
		return control.HACluster{}, control.ErrNoCluster
	}
	return control.HACluster{ClusterName: m.cluster.name}, nil
}
func (m *fakeNode) GetRaftStatus(context.Context) (broker.RaftStatus, error) {
	s := broker.RaftStatus{Nodes: []broker.RaftNode{}, SyncMode: "dynsec"}
	for _, id := range slices.Sorted(maps.Keys(m.cluster.nodes)) {
		s.Nodes = append(s.Nodes, broker.RaftNode{ID: id, Address: "a", Role: 1})
	}
	switch m.id {
	case 0:
	case m.cluster.leader:
		s.State = 3
	default:
		s.State = 1
	}
	s.LastStored = int64(7 * s.State)
	return s, nil
}
func (m *fakeNode) IsLeader(context.Context) (bool, error) { return m.id == m.cluster.leader, nil }

// nodeFixture is a service whose project has scripted brokers that can be nodes.
type nodeFixture struct {
	*apitest.API
	t     *testing.T
	ids   []string
	nodes []*fakeNode
}

func newNodeFixture(t *testing.T, n int) *nodeFixture {
	t.Helper()
	return newNodeFixtureIn(t, apitest.New(t), n)
}

// newNodeFixtureIn adds the brokers to the project of the service.
func newNodeFixtureIn(t *testing.T, api *apitest.API, n int) *nodeFixture {
	t.Helper()
	g := &nodeFixture{API: api, t: t}
	g.Handlers.Clusters = clusters.New(g.Handlers.ClusterRows(), slog.New(slog.DiscardHandler))
	c := &fakeCluster{nodes: map[int]*fakeNode{}}
	for i := range n {
		now := time.Now()
		row := db.Broker{ID: fmt.Sprintf("00000000-0000-7000-8000-00000000000%d", i), ProjectID: g.Project, Type: "self-hosted",
			Name: fmt.Sprint("plant ", i), URL: fmt.Sprintf("mqtt://10.0.0.%d:1883", i+1), CreatedAt: now, UpdatedAt: now}
		if err := g.Handlers.DB.CreateBroker(t.Context(), row); err != nil {
			t.Fatal(err)
		}
		m := &fakeNode{cluster: c}
		g.Handlers.Brokers.Pin(row.ID, m)
		g.ids, g.nodes = append(g.ids, row.ID), append(g.nodes, m)
	}
	return g
}

func (g *nodeFixture) path(rest string) string {
	return "/api/projects/" + g.Project + "/clusters" + rest
}

func (g *nodeFixture) node(i int) object {
	return object{"broker_id": g.ids[i], "url": "mqtt://10.9.9.9:1", "nodeid": i + 1, "name": fmt.Sprint("n", i+1), "address": fmt.Sprint("10.0.0.", i+1), "port": 7000}
}

func (g *nodeFixture) body(n int) object {
	nodes := []object{}
	for i := range n {
		nodes = append(nodes, g.node(i))
	}
	return object{"clustername": "ha", "syncmode": "dynsec", "nodes": nodes}
}

func (g *nodeFixture) create(n int) (c handlers.ClusterConnection) {
	g.t.Helper()
	g.Root.Post(g.path(""), g.body(n)).Want(200).Decode(&c)
	return c
}

func (g *nodeFixture) cluster(id string) (c broker.Cluster) {
	g.t.Helper()
	g.Token("viewer").Get(g.path("/" + id)).Want(200).Decode(&c)
	return c
}

func (g *nodeFixture) down(down bool, members ...*fakeNode) {
	for _, m := range members {
		m.cluster.mu.Lock()
		m.down = down
		m.cluster.mu.Unlock()
	}
}

// TestClusterLife covers the life cycle of a cluster: operations 1 to 8.
func TestClusterLife(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 4)
	viewer, editor := g.Token("viewer"), g.Token("editor")
	editor.Post(g.path(""), g.body(3)).WantError(403, "FORBIDDEN")
	made := g.create(3)
	if made.URL != "mqtt://10.0.0.1:1883" || made.VerifyCACert != 1 || made.Info != "" {
		t.Errorf("connection: got %+v", made)
	}
	g.Root.Post(g.path(""), g.body(3)).WantError(400, "ALREADY_EXISTS")

	want := broker.Cluster{ID: made.ID, ClusterName: "ha", SyncMode: "dynsec", State: "active"}
	for i := range 3 {
		n := broker.ClusterNode{BrokerID: g.ids[i], NodeID: i + 1, Name: fmt.Sprint("n", i+1), Address: fmt.Sprint("10.0.0.", i+1), Port: 7000,
			URL: fmt.Sprintf("mqtt://10.0.0.%d:1883", i+1), Leader: i == 0, LogIndex: 7}
		if i == 0 {
			n.LogIndex = 21
		}
		want.Nodes = append(want.Nodes, n)
	}
	if diff := cmp.Diff(want, g.cluster(made.ID)); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	var list []broker.Cluster
	if answer := viewer.Get(g.path("")).Want(200); answer.Header.Get("X-Total-Count") != "1" {
		t.Error("X-Total-Count is not 1")
	} else if answer.Decode(&list); cmp.Diff([]broker.Cluster{want}, list) != "" {
		t.Errorf("list: got %+v", list)
	}

	viewer.Put(g.path("/"+made.ID+"/join"), g.node(3)).WantError(403, "FORBIDDEN")
	editor.Put(g.path("/"+made.ID+"/join"), g.node(3)).Want(204)
	if c := g.cluster(made.ID); c.State != "active" || len(c.Nodes) != 4 {
		t.Errorf("after a node joined: got %+v", c)
	}
	editor.Put(g.path("/"+made.ID+"/leave"), object{"nodeid": 2}).Want(204)
	editor.Put(g.path("/"+made.ID+"/leave"), object{"nodeid": 2}).WantError(404, "NOT_FOUND")
	if c := g.cluster(made.ID); c.State != "active" || len(c.Nodes) != 3 {
		t.Errorf("after a node left: got %+v", c)
	}

	var status []handlers.ClusterOutcome
	viewer.Get(g.path("/status")).Want(207).Decode(&status)
	if len(status) != 1 || status[0].ClusterID != made.ID || status[0].Status != 200 || status[0].Data.State != 3 || len(status[0].Data.Nodes) != 3 {
		t.Errorf("status: got %+v", status)
	}
	editor.Delete(g.path("/"+made.ID)).WantError(403, "FORBIDDEN")
	g.Root.Delete(g.path("/"+made.ID+"?clustername=other")).WantError(400, "CONFLICT")
	if got := string(g.Root.Delete(g.path("/" + made.ID + "?clustername=ha")).Want(200).Body); strings.TrimSpace(got) != `{"deleted":true}` {
		t.Errorf("deleted: got %s", got)
	}
	g.Root.Delete(g.path("/"+made.ID)).WantError(404, "NOT_FOUND")
	viewer.Get(g.path("/"+made.ID)).WantError(404, "NOT_FOUND")
}

func TestClusterOutOfReach(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 3)
	g.down(true, g.nodes[2])
	if e := g.Root.Post(g.path(""), g.body(3)).WantError(503, "BROKER_UNAVAILABLE").Error(); !strings.Contains(e.Message, "node 3 (n3)") {
		t.Errorf("the node is not named: %q", e.Message)
	}
	g.down(false, g.nodes[2])
	made := g.create(3)
	g.down(true, g.nodes[2])
	if c := g.cluster(made.ID); c.State != "degraded" || c.Nodes[2].Error != "the broker refuses connections" {
		t.Errorf("with one down: got %+v", c)
	}
	g.down(true, g.nodes...)
	if c := g.cluster(made.ID); c.State != "inactive" {
		t.Errorf("with all down: got %+v", c)
	}
	g.Root.Delete(g.path("/"+made.ID)).WantError(503, "BROKER_UNAVAILABLE")
	g.Root.Put(g.path("/"+made.ID+"/leave"), object{"nodeid": 2}).WantError(503, "BROKER_UNAVAILABLE")
	var outcomes []handlers.ClusterOutcome
	wantOne := func(answer *apitest.Response, status int, deleted bool) {
		t.Helper()
		outcomes = nil
		answer.Want(207).Decode(&outcomes)
		if len(outcomes) != 1 || outcomes[0].Status != status || (outcomes[0].Error == nil) != (status == 200) ||
			outcomes[0].Deleted != nil && *outcomes[0].Deleted != deleted {
			t.Errorf("got %s", answer.Body)
		}
	}
	wantOne(g.Root.Get(g.path("/status")), 503, false)
	wantOne(g.Root.Delete(g.path("")), 503, false)
	wantOne(g.Root.Delete(g.path("?purge=true")), 200, true)
	if got := string(g.Root.Get(g.path("")).Want(200).Body); strings.TrimSpace(got) != "[]" {
		t.Errorf("left: %s", got)
	}
}

func TestClusterWithFewNodesIsWarnedOf(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 2)
	if made := g.create(2); !strings.Contains(made.Info, "3") {
		t.Errorf("info: %q", made.Info)
	}
}

// TestClusterRequestThatIsWrong names every invalid field.
func TestClusterRequestThatIsWrong(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 3)
	for name, tt := range map[string]struct {
		change func(body object, nodes []object)
		want   []string
	}{
		"twice the same": {func(_ object, nodes []object) { nodes[1] = nodes[0] },
			[]string{"body.nodes[1].nodeid", "body.nodes[1].address", "body.nodes[1].name", "body.nodes[1].broker_id"}},
		"an address, and a number": {func(_ object, nodes []object) { nodes[2]["address"], nodes[1]["nodeid"] = "10.0.0.1", 3 },
			[]string{"body.nodes[2].nodeid", "body.nodes[2].address"}},
		"too many": {func(body object, nodes []object) {
			for i := range 5 {
				n := g.node(0)
				n["nodeid"], n["port"], n["name"], n["broker_id"] = 10+i, 8000+i, fmt.Sprint(i), fmt.Sprint(i)
				nodes = append(nodes, n)
			}
			body["nodes"] = nodes
		}, []string{"body.nodes"}},
		"certificates": {func(_ object, nodes []object) {
			nodes[0]["ca_cert"], nodes[1]["client_key_file"], nodes[2]["url"] = "x", "../secret.key", "http://x"
		}, []string{"body.nodes[0].ca_cert", "body.nodes[1].client_key_file", "body.nodes[2].url"}},
		"no fingerprint":     {func(_ object, nodes []object) { nodes[1]["server_fingerprint"] = "5E:C6" }, []string{"body.nodes[1].server_fingerprint"}},
		"a pin without TLS":  {func(_ object, nodes []object) { nodes[2]["server_fingerprint"] = fingerprint }, []string{"body.nodes[2].server_fingerprint"}},
		"an unknown member":  {func(_ object, nodes []object) { nodes[1]["host"] = "x" }, []string{"body.nodes[1].host"}},
		"a syncmode":         {func(body object, _ []object) { body["syncmode"] = "half" }, []string{"body.syncmode"}},
		"no nodes":           {func(body object, _ []object) { body["nodes"] = []object{} }, []string{"body.nodes"}},
		"a node that is not": {func(_ object, nodes []object) { nodes[0]["nodeid"], nodes[0]["port"] = 0, 65536 }, []string{"body.nodes[0].nodeid", "body.nodes[0].port"}},
	} {
		t.Run(name, func(t *testing.T) {
			body := g.body(3)
			tt.change(body, body["nodes"].([]object))
			answer := g.Root.Post(g.path(""), body).WantError(400, "INVALID_REQUEST")
			if diff := cmp.Diff(tt.want, answer.Fields()); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
	made := g.create(2)
	join := func(change func(object)) *apitest.Response {
		n := g.node(2)
		change(n)
		return g.Root.Put(g.path("/"+made.ID+"/join"), n).WantError(400, "INVALID_REQUEST")
	}
	for want, change := range map[string]func(object){
		"body.nodeid":    func(n object) { n["nodeid"] = 1 },
		"body.address":   func(n object) { n["address"] = "10.0.0.2" },
		"body.broker_id": func(n object) { n["broker_id"] = g.Project; delete(n, "url") },
		"body.url":       func(n object) { n["url"] = "x" },

		"body.server_fingerprint": func(n object) { n["server_fingerprint"] = fingerprint },
	} {
		if got := join(change).Fields(); !slices.Equal(got, []string{want}) {
			t.Errorf("join: got fields %v, want %s", got, want)
		}
	}
}

// TestClusterOfMosquitto names what is missing.
func TestClusterOfMosquitto(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 2)
	g.ids = append(g.ids, addMosquitto(t, g.API))
	e := g.Root.Post(g.path(""), g.body(3)).WantError(405, "NOT_SUPPORTED").Error()
	if e.Info["feature"] != "cluster" || !strings.Contains(e.Message, "node 3 (n3)") {
		t.Errorf("got %+v", e)
	}
}

// TestClusterNodeWithItsOwnSecrets keeps them sealed.
func TestClusterNodeWithItsOwnSecrets(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 0)
	rows := g.Handlers.ClusterRows()
	node := clusters.Node{Own: true, URL: "mqtts://far", ClusterNodeRef: broker.ClusterNodeRef{BrokerID: "far", NodeID: 1, Address: "a", Port: 7000,
		Target: broker.Target{ID: "00000000-0000-7000-8000-0000000000ff", Rev: 1, URL: "mqtts://far", Username: "u", Password: "hush-hush",
			TLS: broker.TLS{Verify: true, CACert: "ca", ClientCert: "cert", ClientKey: "hush-key", Fingerprint: fingerprint}}}}
	id, err := rows.Create(t.Context(), clusters.Cluster{ProjectID: g.Project, Name: "ha", SyncMode: "hp", Nodes: []clusters.Node{node}})
	if err != nil {
		t.Fatal(err)
	}
	row, err := g.Handlers.DB.GetCluster(t.Context(), g.Project, id)
	if err != nil || len(row.Nodes[0].Secrets) == 0 || strings.Contains(string(row.Nodes[0].Secrets), "hush") {
		t.Errorf("stored: %+v, %v", row, err)
	}
	got, err := rows.Cluster(t.Context(), g.Project, id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]clusters.Node{node}, got.Nodes); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

// TestConnectionOfAClusterNodeIsKept until the node has left.
func TestConnectionOfAClusterNodeIsKept(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 3)
	made := g.create(3)
	g.Root.Delete(g.BrokerAt(g.ids[2], "")).WantError(400, "CONFLICT")
	if c := g.cluster(made.ID); c.State != "active" {
		t.Errorf("got %+v", c)
	}
	g.Root.Put(g.path("/"+made.ID+"/leave"), object{"broker_id": g.ids[2]}).Want(204)
	g.Root.Delete(g.BrokerAt(g.ids[2], "")).Want(204)
	if c := g.cluster(made.ID); c.State != "active" {
		t.Errorf("got %+v", c)
	}
}
