package mesh_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/scripts/suite"
)

// fabric connects the nodes of a test, and can be cut.
type fabric struct {
	t     testing.TB
	mu    sync.Mutex
	nodes map[int]*node
	conns map[[2]int][]*muted // from, to
	cut   map[[2]int]bool
	grace time.Duration
	tcp   bool       // clients and messages go over a network, in real time
	log   *agreement // nil for none
	many  bool       // messages may be under way to and from a client
	wrap  func(id int, s engine.Store) engine.Store
}

// node is an engine with the real store, behind a TCP socket, and its mesh.
type node struct {
	*enginetest.Broker
	fabric *fabric
	id     int
	dir    string
	mesh   *mesh.Mesh
	losses *mesh.Losses
	close  func()
}

// virtually runs a test in virtual time: however slow the machine is, no time passes
// while there is something to be done.
func virtually(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

// overTCP makes a fabric of real connections.
func overTCP(f *fabric) { f.tcp = true }

// weave starts some nodes that know each other. Where a test does not say how long
// messages wait for a node, it is longer than any test takes.
func weave(t testing.TB, n int, change ...func(*fabric)) (*fabric, []*node) {
	t.Helper()
	f := &fabric{t: t, nodes: map[int]*node{}, conns: map[[2]int][]*muted{}, cut: map[[2]int]bool{}, grace: time.Hour}
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
		one.linked(n - 1)
	}
	return f, all
}

func (f *fabric) ids() (ids []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.nodes {
		ids = append(ids, id)
	}
	return ids
}

// start runs a node on the file in dir.
func (f *fabric) start(id int, dir string) *node {
	f.t.Helper()
	t := f.t
	n := &node{fabric: f, id: id, dir: dir, losses: mesh.NewLosses(nil)}
	var s engine.Store
	begin := enginetest.Unconnected
	if f.tcp {
		begin = enginetest.Start
	}
	n.Broker = begin(t, suite.HangLimit, dir, func(c *engine.Config, p *engine.Parts) {
		s = p.Store
		if f.log != nil {
			p.Store = agreeing{s, f.log}
		}
		if f.wrap != nil {
			p.Store = f.wrap(id, s)
		}
		if f.many {
			c.ReceiveMaximum, c.MaxInflight = 65_535, 65_535
		}
	})
	check(t, n.Load(t.Context()))
	if f.log != nil {
		n.AgreeRetained(true)
		f.log.follow(n, s)
	}
	n.mesh = mesh.New(mesh.Options{Self: id, Engine: n.Engine, Net: dialer{f, id}, Grace: f.grace, Losses: n.losses})
	ends := []func(){n.mesh.Close}
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

// linked waits until messages can be sent to some other nodes, and these tell of their
// subscriptions.
func (n *node) linked(to int) {
	n.T.Helper()
	until(n.T, fmt.Sprintf("node %d is linked to %d others", n.id, to), func() bool {
		linked := 0
		for _, f := range n.mesh.Figures() {
			if f.Linked && f.Known {
				linked++
			}
		}
		return linked == to
	})
}

// figures gives those of the link to another node.
func (n *node) figures(to int) mesh.Figures {
	for _, f := range n.mesh.Figures() {
		if f.Node == to {
			return f
		}
	}
	return mesh.Figures{}
}

// dialer is the net as one node has it.
type dialer struct {
	fabric *fabric
	self   int
}

func (d dialer) Dial(_ context.Context, to int) (net.Conn, error) {
	f, way := d.fabric, [2]int{d.self, to}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.nodes[to]
	if f.cut[way] || n == nil {
		return nil, fmt.Errorf("no way from %d to %d", d.self, to)
	}
	here, there, err := f.pair()
	if err != nil {
		return nil, err
	}
	conn := &muted{here, make(chan struct{})}
	f.conns[way] = append(f.conns[way], conn)
	n.mesh.Accept(d.self, there)
	return conn, nil
}

// pair makes two ends of a connection.
func (f *fabric) pair() (here, there net.Conn, err error) {
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

// breaks ends the connections from a node to another; with cut, none can be made
// until heal.
func (f *fabric) breaks(from, to int, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	way := [2]int{from, to}
	for _, c := range f.conns[way] {
		c.Close()
	}
	f.conns[way], f.cut[way] = nil, cut
}

func (f *fabric) heal(from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut[[2]int{from, to}] = false
}

// connections is how many were made from a node to another since they were broken
// or muted.
func (f *fabric) connections(from, to int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns[[2]int{from, to}])
}

// mute has nothing go over the connections from a node to another any more.
func (f *fabric) mute(from, to int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	way := [2]int{from, to}
	for _, c := range f.conns[way] {
		close(c.mute)
	}
	f.conns[way] = nil
}

// forget has nobody reach a node.
func (f *fabric) forget(id int) {
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
