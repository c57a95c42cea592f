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

	mu    sync.Mutex
	fault func(request []byte) fault
	links map[link]net.Conn // the mesh connections dialled last
	cut   map[link]bool     // cannot be dialled
}

// link is the mesh connection from one node to another.
type link struct{ from, to int }

// fault is what happens to a request.
type fault struct {
	before, after bool // the request or its response is lost
	refused       bool // nothing listens at the node's address
	unknown       bool // the node does not know the kind of request
	delay         time.Duration
}

type node struct {
	*enginetest.Broker
	sessions *sessions.Coordinator
	cluster  *cluster
	number   int
	close    func()
	mesh     *mesh.Mesh

	mu       sync.Mutex
	isolated bool // it can reach no node, and no node can reach it
	removed  bool // from the cluster
	atRest   bool // it does not take part in the cluster at present
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
	c.fault = func([]byte) fault { return fault{} }
	c.links, c.cut = map[link]net.Conn{}, map[link]bool{}
	for i := range n {
		c.nodes = append(c.nodes, c.start(i+1, change))
	}
	for _, node := range c.nodes {
		peers, _ := node.Peers()
		node.mesh.SetPeers(peers)
	}
	for _, node := range c.nodes {
		until(t, "the nodes are linked", node.linked)
		node.sessions.Open()
	}
	for _, node := range c.nodes {
		t.Cleanup(node.close)
	}
	for _, node := range c.nodes {
		t.Cleanup(node.sessions.Close)
	}
	return c
}

func (c *cluster) start(number int, change []func(*sessions.Options)) *node {
	c.t.Helper()
	begin := enginetest.Unconnected
	if c.network {
		begin = enginetest.Start
	}
	dir := c.t.TempDir()
	n := &node{Broker: begin(c.t, suite.HangLimit, dir), cluster: c, number: number}
	check(c.t, n.Load(c.t.Context()))
	stored, err := backlog.Open(c.t.Context(), filepath.Join(dir, "backlog.db"), "uuid", slog.New(slog.DiscardHandler))
	check(c.t, err)
	n.mesh = mesh.New(mesh.Options{Self: number, Engine: n.Engine, Net: n, Backlog: stored})
	o := sessions.Options{
		Self: number, Engine: n.Engine, Net: n, RequestTimeout: 5 * time.Second, HandoffTimeout: time.Second, ProbeInterval: 20 * time.Millisecond,
		Flush: n.mesh.Flush,
	}
	for _, f := range change {
		f(&o)
	}
	n.sessions = sessions.New(o)
	n.close = func() {
		n.Close(n.mesh.Close, func() { check(c.t, stored.Close(context.WithoutCancel(c.t.Context()))) })
	}
	return n
}

// injectFaults applies f to requests from now on, one at a time.
func (c *cluster) injectFaults(f func(request []byte) fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

func (c *cluster) faultFor(request []byte) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fault(request)
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
	c.links[link{from, to}].Close()
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

// Peers returns all other nodes, unless this one is at rest.
func (n *node) Peers() (found []int, ok bool) {
	if n.isAtRest() {
		return nil, false
	}
	for _, other := range n.cluster.nodes {
		if other != n && !other.isRemoved() {
			found = append(found, other.number)
		}
	}
	return found, true
}

var errCut = errors.New("the node cannot be reached")

// Ask sends a request to another node.
func (n *node) Ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	other := n.cluster.nodes[to-1]
	f := n.cluster.faultFor(request)
	if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if f.refused {
		return nil, fmt.Errorf("the node cannot be reached: %w", syscall.ECONNREFUSED)
	}
	if f.unknown {
		return nil, sessions.ErrRefused
	}
	if f.before || n.isIsolated() || other.isIsolated() {
		return nil, errCut
	}
	b, err := other.sessions.Serve(ctx, n.number, slices.Clone(request))
	if f.after || n.isIsolated() || other.isIsolated() {
		return nil, errCut
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sessions.ErrRefused, err)
	}
	return b, nil
}

// allReachable reports whether no node regards another one as unreachable.
func (c *cluster) allReachable() bool {
	return !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.sessions.Figures().Unreachable > 0 })
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
