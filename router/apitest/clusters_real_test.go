package apitest_test

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/embedded/listen"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// site is a service whose broker is a node of a cluster, or can be one.
type site struct {
	*apitest.API
	id   int
	port string // of the cluster
	at   string // id of its broker at the first site
}

// startSites starts services whose brokers can be nodes. The first one knows those of the
// others, by their listeners for administrators.
func startSites(t *testing.T, n int, tune ...func(*appliance.Config)) []*site {
	t.Helper()
	all := make([]*site, n)
	for i := range all {
		s := &site{id: i + 1, port: brokertest.FreePort(t, "127.0.0.1")}
		s.API = apitest.New(t, withAdminPassword, withScrapeToken, func(c *appliance.Config) {
			c.Cluster.Listen, c.Cluster.ElectionTimeout = s.port, 30*time.Second // a busy machine keeps its leader
			c.Broker.Listen = brokertest.FreePort(t, "127.0.0.1")                // listeners are closed and opened again
			c.Broker.Listeners = append(c.Broker.Listeners, listen.Config{Protocol: "mqtt", Address: brokertest.FreePort(t, "127.0.0.1"), AdminOnly: true})
			for _, tune := range tune {
				tune(c)
			}
		})
		all[i] = s
	}
	first := all[0]
	first.at = first.Embedded
	for _, s := range all[1:] {
		s.at = addSite(t, first.API, s)
	}
	return all
}

// addSite adds the broker of a site to another service, and waits until that knows that
// it can be a node.
func addSite(t *testing.T, to *apitest.API, s *site) (id string) {
	t.Helper()
	id = addBroker(t, to, object{"name": fmt.Sprint("n", s.id), "url": s.Listeners[len(s.Listeners)-1], "username": mqttAdmin, "password": mqttPassword})
	waitFor(t, "the broker is known to be able to be a node", func() bool {
		return slices.Contains(brokerRecord(to, id).Capabilities, broker.CapCluster)
	})
	return id
}

// node returns the site in the form of the cluster operations.
func (s *site) node() object {
	host, port, err := net.SplitHostPort(s.port)
	if err != nil {
		panic(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		panic(err)
	}
	return object{"broker_id": s.at, "url": "mqtt://x", "nodeid": s.id, "name": fmt.Sprint("n", s.id), "address": host, "port": number}
}

// formCluster forms a cluster of the sites' brokers, over the first one's API.
func formCluster(t *testing.T, all []*site, mode string) (path string) {
	t.Helper()
	first, nodes := all[0], []object{}
	for _, s := range all {
		nodes = append(nodes, s.node())
	}
	path = "/api/projects/" + first.Project + "/clusters"
	var made struct{ ID, Info string }
	again := false
	inTime(t, func() *apitest.Response {
		if again {
			first.deleteClusters(t, path)
		}
		again = true
		return first.Root.Post(path, object{"clustername": "plant", "syncmode": mode, "nodes": nodes})
	}).Want(200).Decode(&made)
	if len(all) >= 3 && made.Info != "" {
		t.Errorf("info: %s", made.Info)
	}
	path += "/" + made.ID
	waitState(t, first, path, "active", len(all))
	return path
}

// deleteClusters deletes what a creation that failed has left, if it could not be undone.
func (s *site) deleteClusters(t *testing.T, path string) {
	t.Helper()
	waitFor(t, "nothing is left of the cluster", func() bool {
		var outcomes []struct{ Status int }
		s.Root.Delete(path).Want(207).Decode(&outcomes)
		return len(outcomes) == 0
	})
}

// shortestStep is the shortest time limit of the service for a step of a change.
const shortestStep = 2 * time.Second

// inTime makes a request until the response is not 503: where the machine is busy, nodes exceed the time for a step of
// a change, which is undone, and who called tries again. A 503 that comes sooner than that is returned.
func inTime(t *testing.T, request func() *apitest.Response) (response *apitest.Response) {
	t.Helper()
	began := time.Now()
	waitFor(t, "a response in time", func() bool {
		response = request()
		if response.Status == http.StatusServiceUnavailable && time.Since(began) >= shortestStep {
			t.Logf("again, as the response was %s", response.Body)
			return false
		}
		return true
	})
	return response
}

// joinCluster adds a node to the cluster at path, over the site's API.
func (s *site) joinCluster(t *testing.T, path string, node *site) {
	t.Helper()
	inTime(t, func() *apitest.Response { return s.Root.Put(path+"/join", node.node()) }).Want(204)
}

// leaveCluster removes a node from the cluster at path, over the site's API.
func (s *site) leaveCluster(t *testing.T, path string, nodeID int) {
	t.Helper()
	inTime(t, func() *apitest.Response { return s.Root.Put(path+"/leave", object{"nodeid": nodeID}) }).Want(204)
}

// waitState waits until the cluster is in a state, with that many nodes.
func waitState(t *testing.T, console *site, path, state string, nodes int) {
	t.Helper()
	waitFor(t, "the cluster is "+state, func() bool {
		var c broker.Cluster
		console.Root.Get(path).Want(200).Decode(&c)
		return c.State == state && len(c.Nodes) == nodes
	})
}

// TestMetricsOfTheCluster checks those of a leader and of a follower, and before and
// after of a single broker.
func TestMetricsOfTheCluster(t *testing.T) {
	t.Parallel()
	all := startSites(t, 2)
	want := func(s *site, want map[string]string) { // eventually: a node that answers late counts as down for a time
		t.Helper()
		waitFor(t, fmt.Sprintf("metrics of node %d: %v", s.id, want), func() bool {
			got := metrics(s.API)
			return !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(name string) bool { return got["signalbox_cluster_"+name] != want[name] })
		})
	}
	const absent = ""
	alone := map[string]string{"state": "0", "voters": "0", "voters_in_contact": absent, "last_contact_seconds": absent, "term": "0"}
	want(all[0], alone)
	path := formCluster(t, all, "dynsec")
	leader, follower := all[0], all[1]
	waitFor(t, "both have a vote", func() bool { return metrics(leader.API)["signalbox_cluster_voters_in_contact"] == "2" })
	info := func(id int) string { return fmt.Sprintf(`info{cluster="plant",node="%d",syncmode="dynsec"}`, id) }
	follower.Root.Post(follower.At("/clients"), object{"username": "via-follower", "password": "secret"}).Want(204)
	leader.Root.Post(leader.At("/clients"), object{"username": "via-leader", "password": "secret"}).Want(204)
	want(leader, map[string]string{"state": "3", "voters": "2", "voters_in_contact": "2", "last_contact_seconds": absent, "forwarded_total": "0",
		info(1): "1", `node_role{node="1"}`: "1", `node_role{node="2"}`: "1", `node_up{node="1"}`: "1", `node_up{node="2"}`: "1"})
	want(follower, map[string]string{"state": "1", "voters": "2", "voters_in_contact": absent, "forwarded_total": "1", info(2): "1", `node_up{node="2"}`: absent})
	if got := metrics(follower.API)["signalbox_cluster_last_contact_seconds"]; got == absent {
		t.Error("a follower does not say when it heard of its leader")
	}
	wantLog(t, metrics(leader.API))
	leader.Root.Delete(path).Want(200)
	for _, s := range all {
		waitFor(t, "the broker is alone again", func() bool { return metrics(s.API)["signalbox_cluster_state"] == "0" })
		want(s, alone)
	}
}

// TestClusterLeaderIsSet over HTTP, and a dead node is removed.
func TestClusterLeaderIsSet(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3)
	first := all[0]
	path := formCluster(t, all, "dynsec")
	leads := func(id int) bool {
		var c broker.Cluster
		first.Root.Get(path).Want(200).Decode(&c)
		i := slices.IndexFunc(c.Nodes, func(n broker.ClusterNode) bool { return n.Leader })
		return i >= 0 && c.Nodes[i].NodeID == id
	}
	waitFor(t, "the node leads that was to", func() bool {
		first.Root.Put(path+"/leader", object{"nodeid": 2}) // it may not be a voter yet
		return leads(2)
	})
	first.Root.Put(path+"/leader", object{"nodeid": 2}).Want(204)
	first.Root.Put(path+"/leader", object{"nodeid": 9}).WantError(404, "NOT_FOUND")
	first.Root.Put(path+"/leader", object{"nodeid": 0}).WantError(400, "INVALID_REQUEST")
	waitFor(t, "the first node leads again", func() bool {
		first.Root.Put(path+"/leader", object{"nodeid": 1})
		return leads(1)
	})
	first.Root.Delete(first.BrokerAt(all[2].at, "")).WantError(400, "CONFLICT")
	all[2].Stop()
	first.leaveCluster(t, path, 3)
	waitState(t, first, path, "active", 2)
	first.Root.Delete(first.BrokerAt(all[2].at, "")).Want(204)
	first.Root.Delete(path).Want(200)
}

// TestNodeWithoutDisk has nodes whose disks are nearly full. They are not ready, their
// records have an error, and the metrics show the free space.
func TestNodeWithoutDisk(t *testing.T) {
	t.Parallel()
	all := startSites(t, 2, func(c *appliance.Config) { c.Cluster.MinFreeDisk = math.MaxInt64 })
	first, nodes := all[0], []object{all[0].node(), all[1].node()}
	first.Root.Get("/readyz").Want(200) // it is in no cluster
	path := "/api/projects/" + first.Project + "/clusters"
	var made struct{ ID string }
	first.Root.Post(path, object{"clustername": "plant", "syncmode": "dynsec", "nodes": nodes}).Want(200).Decode(&made)
	waitState(t, first, path+"/"+made.ID, "degraded", len(all))
	for i := range all {
		waitFor(t, fmt.Sprint("the error of node ", i+1), func() bool { // which has another one until it participates
			var c broker.Cluster
			first.Root.Get(path + "/" + made.ID).Want(200).Decode(&c)
			return strings.Contains(c.Nodes[i].Error, "cluster.min_free_disk")
		})
	}
	for _, s := range all {
		s.Root.Get("/readyz").Want(503)
		m := metrics(s.API)
		if free, err := strconv.ParseFloat(m["signalbox_cluster_disk_free_bytes"], 64); err != nil || free <= 0 {
			t.Errorf("%q bytes are free", m["signalbox_cluster_disk_free_bytes"])
		}
		if m["signalbox_cluster_append_error"] != "0" || m["signalbox_cluster_append_failures_total"] != "0" || m["signalbox_cluster_lag_entries"] == "" {
			t.Errorf("the metrics of the log are not as they should be: %v", m)
		}
	}
	first.Root.Delete(path + "/" + made.ID).Want(200)
}

// wantLog checks the leader's metrics of its log, and of the time of changes.
func wantLog(t *testing.T, m map[string]string) {
	t.Helper()
	number := func(name string) float64 {
		v, err := strconv.ParseFloat(m["signalbox_cluster_"+name], 64)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return v
	}
	stored, committed, applied := number("stored_index"), number("commit_index"), number("applied_index")
	if stored < committed || committed < applied || applied < 2 || number("term") < 1 || number(`node_applied_index{node="1"}`) < 2 {
		t.Errorf("stored %v, committed %v, applied %v", stored, committed, applied)
	}
	count := number("apply_seconds_count")
	if count < 2 || number(`apply_seconds_bucket{le="+Inf"}`) != count || number(`apply_seconds_bucket{le="10"}`) > count || number("apply_seconds_sum") <= 0 {
		t.Errorf("%v changes in %v s", count, number("apply_seconds_sum"))
	}
}

// TestNoMetricsOfAClusterWithoutAPort has a broker that cannot be a node.
func TestNoMetricsOfAClusterWithoutAPort(t *testing.T) {
	t.Parallel()
	if got, ok := metrics(apitest.New(t, withScrapeToken))["signalbox_cluster_state"]; ok {
		t.Errorf("state %s", got)
	}
}

// TestClusterIsTakenOver by the service of another node, after the one that created it
// is lost with its database.
func TestClusterIsTakenOver(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3)
	formCluster(t, all, "hp")
	heir, nodes := all[1], []object{}
	for _, s := range all {
		n := s.node()
		if n["broker_id"] = heir.Embedded; s != heir {
			n["broker_id"] = addSite(t, heir.API, s)
		}
		nodes = append(nodes, n)
	}
	path, body := "/api/projects/"+heir.Project+"/clusters", object{"clustername": "plant", "syncmode": "hp", "nodes": nodes}
	var made struct{ ID, Info string }
	heir.Root.Post(path, body).Want(200).Decode(&made)
	if !strings.Contains(made.Info, "already") {
		t.Errorf("info: %q", made.Info)
	}
	waitState(t, heir, path+"/"+made.ID, "active", 3)
	heir.leaveCluster(t, path+"/"+made.ID, 1)
	waitState(t, heir, path+"/"+made.ID, "active", 2)
	heir.Root.Delete(path + "/" + made.ID).Want(200)
}
