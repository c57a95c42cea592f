package systemtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// machine is a data directory and addresses, on which the program is started and
// stopped.
type machine struct {
	run             *service
	api             *caller // of the service that runs there
	dir             string
	mqtt            string // host:port of the broker, for its clients
	adminAddress    string // host:port of the broker, for the console
	config          string // file of the configuration, "" for none
	cluster         string // host:port of the cluster port
	advertised      string // host:port under which the other machines connect to that
	electionTimeout string // election timeout of the node
	program         string // that is run; "" for the one under test
	shareData       bool   // its clusters share the data of the platform
	id              int    // number as a node
}

// newMachine returns a machine on which nothing has run yet.
func newMachine(t testing.TB, id int) *machine {
	t.Helper()
	at := suite.Host()
	m := &machine{dir: dataDir(t), mqtt: brokertest.FreePort(t, at), cluster: brokertest.FreePort(t, at), electionTimeout: "2s", id: id}
	m.advertised, m.adminAddress = m.cluster, m.mqtt
	return m
}

// start runs the program, for the first time or again.
func (m *machine) start(t testing.TB) {
	t.Helper()
	startAll(t, m)
}

// startAll runs the program on machines concurrently.
func startAll(t testing.TB, machines ...*machine) {
	t.Helper()
	for _, m := range machines {
		m.run = launchProgram(t, cmp.Or(m.program, process.Program), m.dir, m.settings())
	}
	for _, m := range machines {
		m.run.awaitReady(t)
		if m.shareData && m.api != nil { // its session is stored at all nodes
			again := *m.api
			again.url = m.run.API
			m.api = &again
			continue
		}
		m.api = root(t, m.run)
	}
}

// settings returns what the program is run with.
func (m *machine) settings() settings {
	return configured(settings{"BROKER_LISTEN": m.mqtt, "CLUSTER_LISTEN": m.cluster, "CLUSTER_ELECTION_TIMEOUT": m.electionTimeout,
		"CLUSTER_SHARE_DATA": strconv.FormatBool(m.shareData), configFile: m.config})
}

// withSteadyLeader lets a machine keep its leader, however slow the nodes are: it is for
// tests in which no leader fails.
func withSteadyLeader(_ testing.TB, m *machine) { m.electionTimeout = "1m" }

// withAdminListener adds a listener for administrators, over which the machine is
// managed.
func withAdminListener(t testing.TB, m *machine) {
	t.Helper()
	at, _, err := net.SplitHostPort(m.mqtt)
	if err != nil {
		t.Fatal(err)
	}
	m.adminAddress, m.config = brokertest.FreePort(t, at), filepath.Join(t.TempDir(), "config.yaml")
	write(t, m.config, fmt.Sprintf("broker: {listeners: [{protocol: mqtt, address: %q, admin_only: true}]}\n", m.adminAddress))
}

// node returns the machine in the form of the cluster operations.
func (m *machine) node(brokerID string) object {
	host, p, err := net.SplitHostPort(m.advertised)
	if err != nil {
		panic(err)
	}
	number, err := strconv.Atoi(p)
	if err != nil {
		panic(err)
	}
	return object{"broker_id": brokerID, "url": "mqtt://" + m.adminAddress, "nodeid": m.id, "name": fmt.Sprint("n", m.id), "address": host, "port": number}
}

// cluster is the machines of a cluster, and the service that manages it.
type cluster struct {
	machines []*machine
	console  *caller
	brokers  map[int]string // ids of the machines' brokers at the console, by number
	mode     string         // syncmode; "" is dynsec
	id       string         // of the cluster
}

// startCluster starts machines, and connects the first one's service to the brokers of
// the others. It is for tests in which no leader fails.
func startCluster(t testing.TB, n int) *cluster {
	t.Helper()
	c := &cluster{}
	for i := range n {
		m := newMachine(t, i+1)
		withSteadyLeader(t, m)
		m.start(t)
		c.machines = append(c.machines, m)
	}
	c.manageFrom(t, c.machines[0], c.machines[1:]...)
	return c
}

// manageFrom makes the service of a machine the one that manages the cluster, and connects it to the brokers of
// others.
func (c *cluster) manageFrom(t testing.TB, m *machine, others ...*machine) {
	t.Helper()
	c.console, c.brokers = m.api, map[int]string{m.id: m.api.embedded}
	for _, other := range others {
		c.connect(t, other)
	}
}

// startExternalCluster is startCluster with a service that has no broker and manages
// the others from outside. prepare is called with each machine before its first start.
func startExternalCluster(t testing.TB, n int, prepare ...func(testing.TB, *machine)) *cluster {
	t.Helper()
	c := newExternalCluster(t)
	for i := range n {
		m := newMachine(t, i+1)
		for _, do := range prepare {
			do(t, m)
		}
		m.start(t)
		c.machines = append(c.machines, m)
		c.connect(t, m)
	}
	return c
}

// newExternalCluster returns a cluster without machines, and a service without a broker that manages it.
func newExternalCluster(t testing.TB) *cluster {
	t.Helper()
	return &cluster{brokers: map[int]string{}, console: root(t, serve(t, dataDir(t), configured(settings{"BROKER_ENABLED": "false"})))}
}

// connect adds a connection to a machine's broker to the console, and waits until the
// console knows that the broker can be a node.
func (c *cluster) connect(t testing.TB, m *machine) {
	t.Helper()
	c.addBroker(t, m)
	suite.WaitFor(t, "the broker is known to be able to be a node", func() bool {
		return slices.Contains(c.console.capabilities(t, c.brokers[m.id]), "cluster")
	})
}

// addBroker adds a connection to a machine's broker, which may be away.
func (c *cluster) addBroker(t testing.TB, m *machine) {
	t.Helper()
	var added struct{ ID string }
	c.console.must(t, "POST", c.console.inProject("/brokers"), object{"name": fmt.Sprint("n", m.id), "url": "mqtt://" + m.adminAddress,
		"username": mqttAdmin, "password": mqttPassword}, &added)
	c.brokers[m.id] = added.ID
}

// inProject returns a path below the default project.
func (c *caller) inProject(path string) string { return "/api/projects/" + c.project + path }

// capabilities returns the capabilities of a broker, as the service knows them.
func (c *caller) capabilities(t testing.TB, brokerID string) []string {
	t.Helper()
	var b struct{ Capabilities []string }
	c.must(t, "GET", c.inProject("/brokers/"+brokerID), nil, &b)
	return b.Capabilities
}

// connected reports whether the service has a connection to a broker.
func (c *caller) connected(t testing.TB, brokerID string) bool {
	t.Helper()
	var b struct{ Status struct{ Connected bool } }
	c.must(t, "GET", c.inProject("/brokers/"+brokerID), nil, &b)
	return b.Status.Connected
}

// body returns the request for a cluster of all machines.
func (c *cluster) body(mode string) object {
	nodes := []object{}
	for _, m := range c.machines {
		nodes = append(nodes, m.node(c.brokers[m.id]))
	}
	return object{"clustername": "plant", "syncmode": mode, "nodes": nodes}
}

// create creates a cluster of all machines.
func (c *cluster) create(t testing.TB) {
	t.Helper()
	var made struct{ ID string }
	began := time.Now()
	path := c.console.inProject("/clusters")
	status, answer := c.askAgain(t, "POST", path, c.body(cmp.Or(c.mode, "dynsec")), func() bool {
		var left []struct{} // of the attempt before, if it could not be undone
		c.console.must(t, "DELETE", path, nil, &left)
		return len(left) == 0
	})
	if err := json.Unmarshal(answer, &made); err != nil || status >= 300 {
		t.Fatalf("create a cluster: %d %s %v", status, answer, err)
	}
	c.id = made.ID
	answered := since(began)
	c.await(t, "active", c.machines...)
	t.Logf("a cluster of %d: answered after %v, active after %v", len(c.machines), answered, since(began))
}

// ask calls the console until that reaches the nodes. If one does not respond in time,
// or there is no leader at that moment, it is safe to repeat the request.
func (c *cluster) ask(t testing.TB, method, path string, body any) (status int, answer []byte) {
	t.Helper()
	return c.askAgain(t, method, path, body, func() bool { return true })
}

// askAgain is ask that calls a function before it repeats the request, until that returns true.
func (c *cluster) askAgain(t testing.TB, method, path string, body any, isReady func() bool) (status int, answer []byte) {
	t.Helper()
	waitLong(t, "the nodes are reached", func() bool {
		if status == 503 && !isReady() {
			return false
		}
		var err error
		if status, answer, err = c.console.do(t.Context(), method, path, body); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		return status != 503
	})
	return status, answer
}

// join adds a machine to the cluster, for the first time or again.
func (c *cluster) join(t testing.TB, m *machine) {
	t.Helper()
	if status, answer := c.ask(t, "PUT", c.at("/join"), m.node(c.brokers[m.id])); status != 204 {
		t.Fatalf("join of node %d: %d %s", m.id, status, answer)
	}
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }

// at returns a path below the cluster.
func (c *cluster) at(path string) string { return c.console.inProject("/clusters/" + c.id + path) }

// clusterInfo is the service's response for a cluster.
type clusterInfo struct {
	ClusterName, SyncMode, State, Warning string
	Nodes                                 []struct {
		NodeID int
		Leader bool
		Error  string
	}
}

func (c *cluster) info(t testing.TB) (p clusterInfo) {
	t.Helper()
	c.console.must(t, "GET", c.at(""), nil, &p)
	return p
}

// leader returns the number of the leader, 0 if there is none.
func (p clusterInfo) leader() int {
	for _, n := range p.Nodes {
		if n.Leader {
			return n.NodeID
		}
	}
	return 0
}

// await waits until the cluster is in a state with these nodes.
func (c *cluster) await(t testing.TB, state string, machines ...*machine) {
	t.Helper()
	suite.WaitFor(t, "the cluster is "+state, func() bool {
		p := c.info(t)
		return p.State == state && len(p.Nodes) == len(machines)
	})
}

// leading returns the leader, and the others ordered by number.
func (c *cluster) leading(t testing.TB) (leader *machine, others []*machine) {
	t.Helper()
	id := 0
	suite.WaitFor(t, "there is a leader", func() bool { id = c.info(t).leader(); return id != 0 })
	for _, m := range c.machines {
		if m.id == id {
			leader = m
		} else {
			others = append(others, m)
		}
	}
	return leader, others
}

// clients lists the clients of the machine's own broker.
func (m *machine) clients(t testing.TB) []string { t.Helper(); return m.api.names(t, "clients") }

// knows reports whether the machine's own broker has a client.
func (m *machine) knows(t testing.TB, username string) bool {
	t.Helper()
	return slices.Contains(m.clients(t), username)
}

// access returns the whole access control of the machine's own broker.
func (m *machine) access(t testing.TB) string {
	t.Helper()
	all := ""
	for _, path := range []string{"/clients?verbose=false", "/groups", "/roles", "/acldefault"} {
		all += m.api.text(t, m.api.at(path)) + "\n"
	}
	return all
}

// awaitSame waits until machines have the same access control.
func awaitSame(t testing.TB, machines ...*machine) {
	t.Helper()
	suite.WaitFor(t, "all nodes have the same access control", func() bool {
		want := machines[0].access(t)
		return !slices.ContainsFunc(machines[1:], func(m *machine) bool { return m.access(t) != want })
	})
}

// add creates a client through a machine's API. It is in force there at once.
func (m *machine) add(t testing.TB, username string) {
	t.Helper()
	m.api.must(t, "POST", m.api.at("/clients"), object{"username": username, "password": passwordOf(username)}, nil)
	if !mqtttest.Accepts(t, m.mqtt, username, passwordOf(username)) {
		t.Errorf("node %d acknowledged the client %s and refuses it", m.id, username)
	}
}

// wantEverywhere waits until all machines accept a client.
func wantEverywhere(t testing.TB, username string, machines ...*machine) {
	t.Helper()
	for _, m := range machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the client %s", m.id, username), func() bool { return m.knows(t, username) })
		suite.WaitFor(t, fmt.Sprintf("node %d lets the client %s in", m.id, username), func() bool { // its rights may be changing
			return mqtttest.Accepts(t, m.mqtt, username, passwordOf(username))
		})
	}
}
