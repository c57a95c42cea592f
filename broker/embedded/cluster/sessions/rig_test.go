package sessions_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/enginetest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// cluster is some nodes, each with a real engine, store and socket. Their requests
// and messages cross in this process.
type cluster struct {
	t       testing.TB
	nodes   []*node // node n is nodes[n-1]
	network bool    // clients and messages go over TCP

	mu    sync.Mutex
	fault func(request []byte) fault
	links map[link]net.Conn // for messages, as they were dialled last
	cut   map[link]bool     // that break, and cannot be dialled
}

// link is the connection for messages from one node to another one.
type link struct{ from, to int }

// fault is what becomes of a request.
type fault struct {
	before, after bool // it, or its answer, is lost
	delay         time.Duration
}

type node struct {
	*enginetest.Broker
	claims  *sessions.Claims
	cluster *cluster
	number  int
	close   func()
	mesh    *mesh.Mesh

	mu    sync.Mutex
	apart bool // reaches nobody and is not reached
}

// virtually runs a test in virtual time: however slow the machine is, no node is
// passed over that answers at once.
func virtually(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// newCluster starts nodes that do without a network, so that they can run in virtual
// time, until the test ends.
func newCluster(t testing.TB, n int, change ...func(*sessions.Options)) *cluster {
	t.Helper()
	return (&cluster{t: t}).begin(n, change)
}

// newClusterOverTCP is newCluster with a network.
func newClusterOverTCP(t testing.TB, n int, change ...func(*sessions.Options)) *cluster {
	t.Helper()
	return (&cluster{t: t, network: true}).begin(n, change)
}

func (c *cluster) begin(n int, change []func(*sessions.Options)) *cluster {
	t := c.t
	t.Helper()
	c.fault = func([]byte) fault { return fault{} }
	c.links, c.cut = map[link]net.Conn{}, map[link]bool{}
	for i := range n {
		c.nodes = append(c.nodes, c.start(i+1, change))
	}
	for _, node := range c.nodes {
		node.mesh.SetPeers(node.Peers())
	}
	for _, node := range c.nodes {
		until(t, "the nodes are linked", node.linked)
		node.claims.Open()
	}
	for _, node := range c.nodes {
		t.Cleanup(node.close)
	}
	for _, node := range c.nodes {
		t.Cleanup(node.claims.Close)
	}
	return c
}

func (c *cluster) start(number int, change []func(*sessions.Options)) *node {
	c.t.Helper()
	begin := enginetest.Unconnected
	if c.network {
		begin = enginetest.Start
	}
	n := &node{Broker: begin(c.t, suite.HangLimit, c.t.TempDir()), cluster: c, number: number}
	check(c.t, n.Load(c.t.Context()))
	n.mesh = mesh.New(mesh.Options{Self: number, Engine: n.Engine, Net: n})
	o := sessions.Options{
		Self: number, Engine: n.Engine, Net: n, Patience: 5 * time.Second, Hold: time.Second, Probe: 20 * time.Millisecond,
		Flush: n.mesh.Flush,
	}
	for _, f := range change {
		f(&o)
	}
	n.claims = sessions.New(o)
	n.close = func() { n.Close(n.mesh.Close) }
	return n
}

// spoil has requests become what f says, one after the other.
func (c *cluster) spoil(f func(request []byte) fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

func (c *cluster) faultOf(request []byte) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault(request)
}

// part cuts a node off from all others, or joins it again.
func (n *node) part(apart bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apart = apart
}

func (n *node) isApart() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.apart
}

// linked tells whether messages cross to all other nodes, and these tell of their
// subscriptions.
func (n *node) linked() bool {
	return !slices.ContainsFunc(n.mesh.Figures(), func(f mesh.Figures) bool { return !f.Linked || !f.Known })
}

// breakLink breaks the connection for messages from one node to another one, and has
// it be dialled in vain until mendLink. Requests are answered meanwhile.
func (c *cluster) breakLink(from, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[link{from, to}] = true
	c.links[link{from, to}].Close()
}

func (c *cluster) mendLink(from, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cut, link{from, to})
}

// Dial makes a connection for messages.
func (n *node) Dial(_ context.Context, to int) (net.Conn, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	l := link{n.number, to}
	if n.cluster.cut[l] {
		return nil, errCut
	}
	conn, err := n.dial(to)
	n.cluster.links[l] = conn
	return conn, err
}

func (n *node) dial(to int) (net.Conn, error) {
	if !n.cluster.network {
		here, there := net.Pipe()
		n.cluster.nodes[to-1].mesh.Accept(n.number, there)
		return here, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	there, err := l.Accept()
	if err != nil {
		here.Close()
		return nil, err
	}
	n.cluster.nodes[to-1].mesh.Accept(n.number, there)
	return here, nil
}

// Peers gives all other nodes.
func (n *node) Peers() (found []int) {
	for _, other := range n.cluster.nodes {
		if other != n {
			found = append(found, other.number)
		}
	}
	return found
}

var errCut = errors.New("the node cannot be reached")

// Ask puts a request to another node.
func (n *node) Ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	other := n.cluster.nodes[to-1]
	f := n.cluster.faultOf(request)
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.before || n.isApart() || other.isApart() {
		return nil, errCut
	}
	b, err := other.claims.Serve(ctx, n.number, slices.Clone(request))
	if f.after || n.isApart() || other.isApart() {
		return nil, errCut
	}
	return b, err
}

// answers tells whether no node has found another one silent.
func (c *cluster) answers() bool {
	return !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.claims.Figures().Unanswered > 0 })
}

// sessions gives the nodes that have a session of a client id, connected ones
// negative.
func (c *cluster) sessions(clientID string) (found []int) {
	for _, n := range c.nodes {
		switch h, err := n.Holding(clientID); {
		case err != nil:
		case h.Connected:
			found = append(found, -n.number)
		default:
			found = append(found, n.number)
		}
	}
	return found
}

var (
	check = enginetest.Check
	keeps = enginetest.Keeps
)

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	enginetest.Until(t, suite.HangLimit, what, ok)
}
