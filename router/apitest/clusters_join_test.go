package apitest_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// quickElections are those of an ordinary machine: some waits of a node depend on them.
func quickElections(c *appliance.Config) { c.Cluster.ElectionTimeout = 3 * time.Second }

// unreachableAddresses returns addresses at which a node cannot be reached by the others, with the
// syncmode to try each of them in.
func unreachableAddresses(t *testing.T, other *site) map[string]struct{ mode, address, reason string } {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	return map[string]struct{ mode, address, reason string }{
		"a port at which nothing listens":   {"full", brokertest.FreePort(t, "127.0.0.1"), "connection refused"},
		"a listener of MQTT":                {"hp", strings.TrimPrefix(other.Listeners[0], "mqtt://"), "does not respond as the node's cluster port"},
		"a node of another cluster":         {"dynsec", other.port, "does not respond as the node's cluster port"},
		"a port that accepts and is silent": {"full", silent.Addr().String(), "no response in time"},
	}
}

// startOther starts a service whose broker is the only node of a cluster.
func startOther(t *testing.T) *site {
	t.Helper()
	other := startSites(t, 1, quickElections)
	formCluster(t, other, "dynsec")
	return other[0]
}

// wantAlone checks that the site's broker serves its clients alone, and with its own data. It waits until the first site
// is connected to it again: the connection ended when the node left.
func wantAlone(t *testing.T, first, s *site) {
	t.Helper()
	if r := brokerRecord(s.API, s.Embedded); r.HA {
		t.Errorf("node %d is still in a cluster", s.id)
	}
	s.Root.Get("/readyz").Want(200)
	if !isOpen(s.Listeners[0]) {
		t.Errorf("node %d does not serve", s.id)
	}
	s.Root.Put(s.At("/clients"), object{"username": "own", "textname": "can be changed"}).Want(204)
	var kept []struct{ Topic string }
	s.Root.Get(s.At("/messages/retained?filter=own")).Want(200).Decode(&kept)
	if len(kept) != 1 {
		t.Errorf("node %d has lost a retained message", s.id)
	}
	waitFor(t, fmt.Sprintf("node %d is connected to the first site again", s.id), func() bool {
		return brokerRecord(first.API, s.at).Status.Connected
	})
}

// wantUnreached makes a request until the error is that a node cannot be reached, with all the words. On a busy machine
// another step may exceed its time first, which is another error and changes nothing either.
func wantUnreached(t *testing.T, request func() *apitest.Response, words ...string) {
	t.Helper()
	waitFor(t, fmt.Sprintf("an error with %q", words), func() bool {
		e := request().WantError(503, "BROKER_UNAVAILABLE").Error()
		lacks := slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) })
		if lacks {
			t.Logf("again, as the error was %q", e.Message)
		}
		return !lacks
	})
}

// storeOwn stores the data at the site's broker that wantAlone checks.
func storeOwn(s *site) {
	s.Root.Post(s.At("/clients"), object{"username": "own", "password": "secret"}).Want(204)
	s.Root.Post(s.At("/messages"), object{"topic": "own", "payload": "x", "qos": 1, "retain": true}).Want(204)
}

// TestJoinOfAnUnreachableNode checks that a node that the leader cannot reach at its address is an
// error, after which the cluster and the node are as before.
func TestJoinOfAnUnreachableNode(t *testing.T) {
	t.Parallel()
	for name, tt := range unreachableAddresses(t, startOther(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startSites(t, 2, quickElections)
			first, second := all[0], all[1]
			path := formCluster(t, all[:1], tt.mode)
			storeOwn(second)
			right := second.port
			second.port = tt.address
			wantUnreached(t, func() *apitest.Response { return first.Root.Put(path+"/join", second.node()) },
				"node 2 (n2)", "node 1 (n1)", tt.address, tt.reason, "undone", "cluster.listen")
			waitState(t, first, path, "active", 1)
			var status []struct{ Data broker.RaftStatus }
			first.Root.Get("/api/projects/" + first.Project + "/clusters/status").Want(207).Decode(&status)
			if nodes := status[0].Data.Nodes; len(nodes) != 1 || nodes[0].ID != 1 {
				t.Errorf("got the members %+v, want node 1", nodes)
			}
			wantAlone(t, first, second)
			second.port = right
			first.joinCluster(t, path, second)
			waitState(t, first, path, "active", 2)
		})
	}
}

// TestJoinOfANodeThatIsReachedLate checks that a node joins whose address leads to it only after the
// leader has tried in vain.
func TestJoinOfANodeThatIsReachedLate(t *testing.T) {
	t.Parallel()
	all := startSites(t, 2, quickElections)
	first, second := all[0], all[1]
	path := formCluster(t, all[:1], "dynsec")
	target := second.port
	second.port = brokertest.FreePort(t, "127.0.0.1")
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		first.Root.Put(path+"/join", second.node()).Want(204)
	}()
	waitFor(t, "the leader cannot reach the node", func() bool {
		var c broker.Cluster
		first.Root.Get(path).Want(200).Decode(&c)
		return len(c.Nodes) == 2 && strings.Contains(c.Nodes[1].Error, "the leader cannot reach it at "+second.port)
	})
	forwardPort(t, second.port, target)
	<-joined
	waitState(t, first, path, "active", 2)
}

// forwardPort forwards connections of one address to another until the test ends.
func forwardPort(t *testing.T, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			for _, c := range [][2]net.Conn{{in, out}, {out, in}} {
				wg.Go(func() {
					io.Copy(c[0], c[1]) //nolint:errcheck // it ends with either connection
					in.Close()
					out.Close()
				})
			}
		}
	})
	t.Cleanup(func() { l.Close() })
}

// TestCreationWithAnUnreachableNode is the same for a new cluster.
func TestCreationWithAnUnreachableNode(t *testing.T) {
	t.Parallel()
	for name, tt := range unreachableAddresses(t, startOther(t)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := startSites(t, 3, quickElections)
			for _, s := range all {
				storeOwn(s)
			}
			right := all[1].port
			all[1].port = tt.address
			clusters := "/api/projects/" + all[0].Project + "/clusters"
			body := object{"clustername": "plant", "syncmode": tt.mode, "nodes": []object{all[0].node(), all[1].node(), all[2].node()}}
			wantUnreached(t, func() *apitest.Response { return all[0].Root.Post(clusters, body) }, "node 2 (n2)", tt.address, tt.reason, "undone")
			if got := strings.TrimSpace(string(all[0].Root.Get(clusters).Want(200).Body)); got != "[]" {
				t.Errorf("left: %s", got)
			}
			for _, s := range all {
				waitFor(t, fmt.Sprint("node ", s.id, " serves"), func() bool { return isOpen(s.Listeners[0]) })
				wantAlone(t, all[0], s)
			}
			all[1].port = right
			formCluster(t, all, tt.mode)
		})
	}
}

// TestJoinThatIsRefused checks that a node that refuses to join leaves no member behind.
func TestJoinThatIsRefused(t *testing.T) {
	t.Parallel()
	all := startSites(t, 1)
	path := formCluster(t, all, "dynsec")
	others := startSites(t, 1, func(c *appliance.Config) { c.Cluster.Expect = "harbour" })
	expects := others[0]
	expects.id = 2
	expects.at = addSite(t, all[0].API, expects)
	taken := startOther(t)
	taken.id = 3
	taken.at = addSite(t, all[0].API, taken)
	for _, tt := range []struct {
		node  *site
		words []string
	}{
		{expects, []string{"node 2 (n2)", "cluster.expect"}},
		{taken, []string{"node 3 (n3)", `"plant"`}},
	} {
		e := all[0].Root.Put(path+"/join", tt.node.node()).WantError(400, "CONFLICT").Error()
		if slices.ContainsFunc(tt.words, func(w string) bool { return !strings.Contains(e.Message, w) }) {
			t.Errorf("got %q, want %q in it", e.Message, tt.words)
		}
		waitState(t, all[0], path, "active", 1)
	}
}
