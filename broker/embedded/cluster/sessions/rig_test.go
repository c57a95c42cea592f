package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/cluster/mesh/backlog"
	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// cluster is a number of nodes, each with an engine and a store. Their requests are function
// calls.
type cluster struct {
	t       testing.TB
	nodes   []*node // node n is nodes[n-1]
	network bool    // clients and mesh links use TCP

	change  []func(*sessions.Options)
	engines []func(*engine.Config, *engine.Parts)

	mu    sync.Mutex
	fault func(l link, request []byte) fault
	links map[link]net.Conn        // the mesh connections dialled last
	cut   map[link]bool            // cannot be dialled
	lost  map[context.Context]bool // see noteLost

	blocked map[link]int               // how often block was called for a direction
	latency func(l link) time.Duration // of the mesh connections; nil for none
}

// link is the mesh connection from one node to another, or the direction of a request.
type link struct{ from, to int }

// fault is what happens to a request.
type fault struct {
	before, after bool // the request or its response is lost
	hangs         bool // and that is noticed at the timeout only
	refused       bool // nothing listens at the node's address
	unknown       bool // the node does not know the kind of request
	delay         time.Duration
}

type node struct {
	*enginetest.Broker
	sessions     *sessions.Coordinator
	cluster      *cluster
	number       int
	dir          string
	closeBacklog func()
	mesh         *mesh.Mesh

	mu       sync.Mutex
	isolated bool // it can reach no node, and no node can reach it
	removed  bool // from the cluster
	atRest   bool // it does not take part in the cluster at present
	down     bool // nothing listens at its address
}

// inVirtualTime runs a test in virtual time: a node that responds at once is never
// unreachable, however slow the machine is.
func inVirtualTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// newCluster starts nodes without a network, which can run in virtual time, until the test
// ends.
func newCluster(t testing.TB, n int, change ...func(*sessions.Options)) *cluster {
	t.Helper()
	return (&cluster{t: t}).startNodes(n, change)
}

// newClusterOverTCP starts nodes that use TCP.
func newClusterOverTCP(t testing.TB, n int, change ...func(*sessions.Options)) *cluster {
	t.Helper()
	return (&cluster{t: t, network: true}).startNodes(n, change)
}

func (c *cluster) startNodes(n int, change []func(*sessions.Options)) *cluster {
	t := c.t
	t.Helper()
	c.fault = func(link, []byte) fault { return fault{} }
	c.links, c.cut, c.lost, c.blocked, c.change = map[link]net.Conn{}, map[link]bool{}, map[context.Context]bool{}, map[link]int{}, change
	for i := range n {
		c.nodes = append(c.nodes, c.start(i+1, t.TempDir()))
	}
	for _, node := range c.nodes {
		peers, _ := node.Peers()
		node.mesh.SetPeers(peers)
	}
	for _, node := range c.nodes {
		until(t, "the nodes are linked", node.linked)
		node.sessions.Open()
	}
	for i := range c.nodes {
		t.Cleanup(func() { c.nodes[i].Close(c.nodes[i].mesh.Close, c.nodes[i].closeBacklog) })
	}
	for i := range c.nodes {
		t.Cleanup(func() { c.nodes[i].sessions.Close() })
	}
	return c
}

// start starts a node on the files in dir.
func (c *cluster) start(number int, dir string) *node {
	c.t.Helper()
	begin := enginetest.Unconnected
	if c.network {
		begin = enginetest.Start
	}
	n := &node{Broker: begin(c.t, suite.HangLimit, dir, c.engines...), cluster: c, number: number, dir: dir}
	check(c.t, n.Load(c.t.Context()))
	stored, err := backlog.Open(c.t.Context(), filepath.Join(dir, "backlog.db"), "uuid", slog.New(slog.DiscardHandler))
	check(c.t, err)
	n.mesh = mesh.New(mesh.Options{Self: number, Engine: n.Engine, Net: n, Backlog: stored})
	o := sessions.Options{
		Self: number, Engine: n.Engine, Net: n, RequestTimeout: 5 * time.Second, HandoffTimeout: time.Second, ProbeInterval: 20 * time.Millisecond,
		Flush: n.mesh.Flush,
	}
	for _, f := range c.change {
		f(&o)
	}
	n.sessions = sessions.New(o)
	n.closeBacklog = func() { check(c.t, stored.Close(context.WithoutCancel(c.t.Context()))) }
	return n
}

// injectFaults applies f to requests from now on, one at a time.
func (c *cluster) injectFaults(f func(request []byte) fault) {
	c.injectFaultsByLink(func(_ link, request []byte) fault { return f(request) })
}

// injectFaultsByLink is injectFaults for an f that gets the nodes, too.
func (c *cluster) injectFaultsByLink(f func(l link, request []byte) fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

func (c *cluster) faultFor(l link, request []byte) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault(l, request)
}

// at returns the node with a number.
func (c *cluster) at(number int) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[number-1]
}

// replace replaces a node by another one with its number.
func (c *cluster) replace(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[n.number-1] = n
}

// setIsolated isolates a node from all others, or reconnects it.
func (n *node) setIsolated(isolated bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isolated = isolated
}

func (n *node) isIsolated() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.isolated
}

// setDown has nothing listen at a node's address, or something again.
func (n *node) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
}

func (n *node) isDown() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.down
}

// remove removes a node from the cluster.
func (n *node) remove() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removed = true
}

func (n *node) isRemoved() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.removed
}

// setAtRest has a node stop to take part in the cluster, or take part again.
func (n *node) setAtRest(atRest bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.atRest = atRest
}

func (n *node) isAtRest() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.atRest
}

// linked reports whether the mesh links to all other nodes are up and their subscriptions
// known.
func (n *node) linked() bool {
	return !slices.ContainsFunc(n.mesh.Figures(), func(f mesh.Figures) bool { return !f.Linked || !f.RoutesKnown })
}

// breakLink closes the mesh connection between two nodes and makes dialling fail until
// mendLink. Requests still succeed.
func (c *cluster) breakLink(from, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut[link{from, to}] = true
	if conn := c.links[link{from, to}]; conn != nil {
		conn.Close()
	}
}

func (l link) back() link { return link{l.to, l.from} }

// block loses what is sent in a direction, from now on or, with -1, no more. The mesh connections
// break, which need both directions.
func (c *cluster) block(l link, change int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked[l] += change
	for _, conn := range []net.Conn{c.links[l], c.links[l.back()]} {
		if change > 0 && conn != nil {
			conn.Close()
		}
	}
}

func (c *cluster) isBlocked(l link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked[l] > 0
}

func (c *cluster) mendLink(from, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cut, link{from, to})
}

// Dial opens a mesh connection.
func (n *node) Dial(_ context.Context, to int) (net.Conn, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	l := link{n.number, to}
	if n.cluster.cut[l] || n.cluster.blocked[l]+n.cluster.blocked[l.back()] > 0 || n.cluster.nodes[to-1].isDown() {
		return nil, errCut
	}
	conn, err := n.dial(to)
	n.cluster.links[l] = conn
	return conn, err
}

func (n *node) dial(to int) (net.Conn, error) {
	if !n.cluster.network {
		here, there := net.Pipe()
		if n.cluster.latency != nil {
			here = delayed(here, n.cluster.latency(link{n.number, to}))
		}
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

// Peers returns all other nodes, unless this one is at rest.
func (n *node) Peers() (found []int, ok bool) {
	if n.isAtRest() {
		return nil, false
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	for _, other := range n.cluster.nodes {
		if other.number != n.number && !other.isRemoved() {
			found = append(found, other.number)
		}
	}
	return found, true
}

var errCut = errors.New("the node cannot be reached")

// Ask sends a request to another node.
func (n *node) Ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	l, other := link{n.number, to}, n.cluster.at(to)
	f := n.cluster.faultFor(l, request)
	fails := func(lost bool, l link) bool {
		cut := n.isIsolated() || other.isIsolated() || n.isDown() || n.cluster.isBlocked(l)
		n.cluster.noteLost(ctx, cut)
		lost = lost || cut
		if lost && f.hangs {
			<-ctx.Done()
		}
		return lost
	}
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch {
	case fails(f.before, l):
		return nil, errCut
	case f.refused || other.isDown():
		return nil, fmt.Errorf("the node cannot be reached: %w", syscall.ECONNREFUSED)
	}
	if f.unknown {
		return nil, sessions.ErrRefused
	}
	b, err := other.sessions.Serve(ctx, n.number, slices.Clone(request))
	if fails(f.after || other.isDown(), l.back()) {
		return nil, errCut
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sessions.ErrRefused, err)
	}
	return b, nil
}

// owners returns the nodes that have a session of a client id, negated where the client is
// connected.
func (c *cluster) owners(clientID string) (found []int) {
	for _, n := range c.nodes {
		switch h, err := n.Ownership(clientID); {
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
	keeps = enginetest.Persistent
)

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	enginetest.Until(t, suite.HangLimit, what, ok)
}
