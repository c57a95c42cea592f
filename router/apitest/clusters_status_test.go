package apitest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/router/apitest"
)

// two forms a cluster "one" of the first two brokers, and "two" of the others.
func (g *nodeFixture) two() (ids [2]string) {
	g.t.Helper()
	other := &fakeCluster{nodes: map[int]*fakeNode{}}
	g.nodes[2].cluster, g.nodes[3].cluster = other, other
	for i, name := range []string{"one", "two"} {
		body := g.body(0)
		body["clustername"], body["nodes"] = name, []object{g.node(2 * i), g.node(2*i + 1)}
		var made struct{ ID string }
		g.Root.Post(g.path(""), body).Want(200).Decode(&made)
		ids[i] = made.ID
	}
	return ids
}

// fail makes brokers fail every command with an error, nil for none.
func (g *nodeFixture) fail(err error, members ...*fakeNode) {
	for _, m := range members {
		m.cluster.mu.Lock()
		m.fault = err
		m.cluster.mu.Unlock()
	}
}

// wantOutcomes compares the content of a 207. An error's message must contain the given
// word.
func wantOutcomes(t *testing.T, a *apitest.Response, want ...object) {
	t.Helper()
	var got []object
	a.Want(207).Decode(&got)
	if got == nil || len(got) != len(want) {
		t.Fatalf("got %s, want %d outcomes", a.Body, len(want))
	}
	for i := range want {
		said, _ := got[i]["error"].(object)
		if word, ok := want[i]["error"].(object); ok && said != nil && strings.Contains(fmt.Sprint(said["message"]), fmt.Sprint(word["message"])) {
			said["message"] = word["message"]
		}
		wanted, err := json.Marshal(want[i])
		if err != nil {
			t.Fatal(err)
		}
		var w object
		if err := json.Unmarshal(wanted, &w); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w, got[i]); diff != "" {
			t.Errorf("outcome %d (-want +got):\n%s", i, diff)
		}
	}
}

// failures are the errors of a broker, and the resulting responses.
var failures = []struct {
	kind   broker.Kind
	status int
	code   string
}{
	{broker.Unavailable, 503, "BROKER_UNAVAILABLE"}, {broker.Denied, 503, "BROKER_UNAVAILABLE"},
	{broker.Unconfirmed, 503, "BROKER_TIMEOUT"}, {broker.Internal, 500, "BROKER_ERROR"},
}

// TestClustersThatFail checks which node fails, and how: operations 2 to 4, 6 to 8.
// Those that show clusters show it at the node.
func TestClustersThatFail(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 4)
	made := g.create(3)
	for _, f := range failures {
		g.fail(&broker.Error{Kind: f.kind, Op: "x", Msg: "the broker says no"}, g.nodes...)
		for name, answer := range map[string]*apitest.Response{
			"delete": g.Root.Delete(g.path("/" + made.ID)),
			"join":   g.Root.Put(g.path("/"+made.ID+"/join"), g.node(3)),
			"leave":  g.Root.Put(g.path("/"+made.ID+"/leave"), object{"nodeid": 2}),
			"create": g.Root.Post(g.path(""), object{"clustername": "x", "syncmode": "dynsec", "nodes": []object{g.node(3)}}),
		} {
			if e := answer.WantError(f.status, f.code).Error(); !strings.Contains(e.Message, "(n") {
				t.Errorf("%s: the node is not named: %q", name, e.Message)
			}
		}
		if c := g.cluster(made.ID); c.State != "inactive" || c.Nodes[1].Error != "the broker says no" {
			t.Errorf("got %+v", c)
		}
	}
	if c := g.cluster(made.ID); len(c.Nodes) != 3 {
		t.Errorf("got %+v", c)
	}
}

// TestOutcomesOfSeveralClusters has the operations on all clusters, 7 and 8, succeed
// for one and fail for the other.
func TestOutcomesOfSeveralClusters(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 4)
	wantOutcomes(t, g.Root.Get(g.path("/status")))
	wantOutcomes(t, g.Root.Delete(g.path("")))
	ids := g.two()
	status := object{"state": 3, "commit_index": 0, "last_applied": 0, "last_stored": 21, "current_term": 0, "syncmode": "dynsec", "errmsg": "",
		"nodes": []object{{"id": 1, "address": "a", "role": 1}, {"id": 2, "address": "a", "role": 1}}}
	for _, f := range failures {
		g.fail(&broker.Error{Kind: f.kind, Op: "x", Msg: "the broker says no"}, g.nodes[2], g.nodes[3])
		wantOutcomes(t, g.Token("viewer").Get(g.path("/status")),
			object{"clusterId": ids[0], "clustername": "one", "status": 200, "data": status},
			object{"clusterId": ids[1], "clustername": "two", "status": f.status,
				"error": object{"message": "node 3 (n3): the broker says no", "code": f.code, "status": f.status}})
	}
	g.down(true, g.nodes[2], g.nodes[3])
	wantOutcomes(t, g.Root.Delete(g.path("")),
		object{"clusterId": ids[0], "clustername": "one", "status": 200, "deleted": true},
		object{"clusterId": ids[1], "clustername": "two", "status": 503, "deleted": false,
			"error": object{"message": "node 4 (n4): the broker refuses connections", "code": "BROKER_UNAVAILABLE", "status": 503}})
	wantOutcomes(t, g.Root.Delete(g.path("?purge=true")),
		object{"clusterId": ids[1], "clustername": "two", "status": 200, "deleted": true})
	if got := g.Root.Delete(g.path("?purge=perhaps")).WantError(400, "INVALID_REQUEST").Fields(); fmt.Sprint(got) != "[query.purge]" {
		t.Errorf("bad fields %q", got)
	}
}

// An unknown cluster is not found: operations 1 to 4, also for a caller in another
// project.
func TestUnknownCluster(t *testing.T) {
	t.Parallel()
	g := newNodeFixture(t, 2)
	made := g.create(2)
	var other struct{ ID string }
	g.Root.Post("/api/projects", object{"name": "other"}).Want(200).Decode(&other)
	for _, path := range []string{g.path("/" + g.Project), g.path("/x"), "/api/projects/" + other.ID + "/clusters/" + made.ID} {
		g.Root.Get(path).WantError(404, "NOT_FOUND")
		g.Root.Delete(path).WantError(404, "NOT_FOUND")
		g.Root.Delete(path+"?purge=true").WantError(404, "NOT_FOUND")
		g.Root.Put(path+"/join", g.node(1)).WantError(404, "NOT_FOUND")
		g.Root.Put(path+"/leave", object{"nodeid": 1}).WantError(404, "NOT_FOUND")
	}
	g.Root.Put(g.path(""), object{}).WantError(405, "METHOD_NOT_ALLOWED")
	g.Root.Post(g.path("/status"), object{}).WantError(405, "METHOD_NOT_ALLOWED")
	if c := g.cluster(made.ID); c.State != "active" {
		t.Errorf("got %+v", c)
	}
}
