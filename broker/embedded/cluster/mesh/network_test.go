package mesh_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/cluster/mesh/backlog"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/scripts/suite"
)

// network connects the nodes of a test, and can be cut.
type network struct {
	t                 testing.TB
	mu                sync.Mutex
	nodes             map[int]*node
	conns             map[[2]int][]*mutedConn // from, to
	cut               map[[2]int]bool
	grace             time.Duration
	maxBacklog        int64
	diskLow           atomic.Bool
	generations       [4]atomic.Uint64
	tcp               bool       // TCP, in real time
	log               *sharedLog // nil for none
	unlimitedInflight bool       // no limit of a client's messages in flight
	wrap              func(id int, s engine.Store) engine.Store
}

// generationOf returns the generation of a node.
func (f *network) generationOf(id int) uint64 { return f.generations[id].Load() }

// node is an engine with a store, and its mesh.
type node struct {
	*enginetest.Broker
	network *network
	id      int
	dir     string
	mesh    *mesh.Mesh
	backlog *backlog.Store
	losses  *mesh.Losses
	close   func()
}

// inVirtualTime runs a test in virtual time: no time passes while a goroutine can run.
func inVirtualTime(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// overTCP makes a network of TCP connections.
func overTCP(f *network) { f.tcp = true }

// startNodes starts connected nodes. Unless a test sets it, the grace period is longer than
// the test.
func startNodes(t testing.TB, n int, change ...func(*network)) (*network, []*node) {
	t.Helper()
	f := &network{t: t, nodes: map[int]*node{}, conns: map[[2]int][]*mutedConn{}, cut: map[[2]int]bool{}, grace: time.Hour}
	for _, c := range change {
		c(f)
	}
	var all []*node
	for i := range n {
		all = append(all, f.start(i+1, t.TempDir()))
	}
	for _, one := range all {
		one.mesh.SetPeers(f.ids())
	}
	for _, one := range all {
		one.waitLinked(n - 1)
	}
	return f, all
}

func (f *network) ids() (ids []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.nodes {
		ids = append(ids, id)
	}
	return ids
}

// start starts a node on the store in dir.
func (f *network) start(id int, dir string) *node {
	f.t.Helper()
	t := f.t
	n := &node{network: f, id: id, dir: dir, losses: mesh.NewLosses(nil)}
	var s engine.Store
	begin := enginetest.Unconnected
	if f.tcp {
		begin = enginetest.Start
	}
	n.Broker = begin(t, suite.HangLimit, dir, func(c *engine.Config, p *engine.Parts) {
		s = p.Store
		if f.log != nil {
			p.Store = logStore{s, f.log}
		}
		if f.wrap != nil {
			p.Store = f.wrap(id, s)
		}
		if f.unlimitedInflight {
			c.ReceiveMaximum, c.MaxInflight = 65_535, 65_535
		}
	})
	check(t, n.Load(t.Context()))
	if f.log != nil {
		n.AgreeRetained(true)
		f.log.applyTo(n, s)
	}
	var err error
	n.backlog, err = backlog.Open(t.Context(), filepath.Join(dir, "backlog.db"), "uuid", slog.New(slog.DiscardHandler))
	check(t, err)
	n.mesh = mesh.New(mesh.Options{
		Self: id, Engine: n.Engine, Net: dialer{f, id}, Grace: f.grace, Losses: n.losses, Backlog: n.backlog, MaxBacklog: f.maxBacklog, DiskLow: f.diskLow.Load, Generation: f.generationOf,
	})
	ends := []func(){n.mesh.Close, func() { check(t, n.backlog.Close(context.WithoutCancel(t.Context()))) }}
	if f.log != nil {
		ends = append(ends, f.log.close)
	}
	n.close = sync.OnceFunc(func() { n.Close(ends...) })
	t.Cleanup(n.close)
	f.mu.Lock()
	f.nodes[id] = n
	f.mu.Unlock()
	return n
}

// waitLinked waits until the node has links to a number of others and knows their routes.
func (n *node) waitLinked(to int) {
	n.T.Helper()
	until(n.T, fmt.Sprintf("node %d is linked to %d others", n.id, to), func() bool {
		linked := 0
		for _, f := range n.mesh.Figures() {
			if f.Linked && f.RoutesKnown {
				linked++
			}
		}
		return linked == to
	})
}

// figures returns those of the link to another node.
func (n *node) figures(to int) mesh.Figures {
	for _, f := range n.mesh.Figures() {
		if f.Node == to {
			return f
		}
	}
	return mesh.Figures{}
}

// dialer is the network as seen by one node.
type dialer struct {
	network *network
	self    int
}

func (d dialer) Dial(_ context.Context, to int) (net.Conn, error) {
	f, way := d.network, [2]int{d.self, to}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[to]
	if f.cut[way] || n == nil {
		return nil, fmt.Errorf("node %d cannot reach node %d", d.self, to)
	}
	here, there, err := f.pair()
	if err != nil {
		return nil, err
	}
	conn := &mutedConn{here, make(chan struct{})}
	f.conns[way] = append(f.conns[way], conn)
	n.mesh.Accept(d.self, there)
	return conn, nil
}

// pair returns the two ends of a connection.
func (f *network) pair() (here, there net.Conn, err error) {
	if !f.tcp {
		here, there = net.Pipe()
		return enginetest.Buffered(here), there, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	there, err = l.Accept()
	return here, there, err
}

// disconnect closes the connections from one node to another; with cut, none can be dialled
// until reconnect.
func (f *network) disconnect(from, to int, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	way := [2]int{from, to}
	for _, c := range f.conns[way] {
		c.Close()
	}
	f.conns[way], f.cut[way] = nil, cut
}

func (f *network) reconnect(from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[[2]int{from, to}] = false
}

// connections returns how many were dialled from one node to another since they were last
// closed or muted.
func (f *network) connections(from, to int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns[[2]int{from, to}])
}

// mute discards all data on the connections from one node to another.
func (f *network) mute(from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	way := [2]int{from, to}
	for _, c := range f.conns[way] {
		close(c.mute)
	}
	f.conns[way] = nil
}

// unregister makes a node unreachable.
func (f *network) unregister(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, id)
}

var check = enginetest.Check

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	enginetest.Until(t, suite.HangLimit, what, ok)
}
