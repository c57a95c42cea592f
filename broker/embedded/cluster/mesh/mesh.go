// Package mesh forwards messages between nodes that all serve clients: it sends every other
// node the topic filters subscribed to here, and messages to the nodes that have subscriptions
// for them.
//
// It depends on the engine and its backlog alone; the connections are provided by its caller. DESIGN.md
// describes the protocol, and what happens to messages when a link breaks.
package mesh

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"signalbox/broker/embedded/cluster/mesh/backlog"
	"signalbox/broker/embedded/engine"
)

// Net connects to other nodes.
type Net interface {
	Dial(ctx context.Context, to int) (net.Conn, error)
}

// Options configures a Mesh.
type Options struct {
	Self   int // number of this node, from 1 to 65,535
	Engine *engine.Engine
	Net    Net
	Log    *slog.Logger // nil for none
	// Grace is how long messages wait for a node that is unreachable; 0 for DefaultGrace.
	Grace time.Duration
	// IdleTimeout is how long a link is kept on which no frame comes, pings included; 0 for
	// DefaultIdleTimeout.
	IdleTimeout time.Duration
	// ClockOffset returns how many milliseconds the clock of another node's engine is ahead of
	// this node's; nil means that all clocks agree.
	ClockOffset func(node int) int64
	// Backlog stores what other nodes do not get while they are away. It is closed after the
	// mesh.
	Backlog *backlog.Store
	// MaxBacklog bounds what is stored for one node, in bytes; 0 for DefaultMaxBacklog.
	MaxBacklog int64
	// DiskLow reports whether too little space is free on the disk of the backlog to store more; nil if
	// that does not matter.
	DiskLow func() bool
	// Generation returns the generation of another node, which grows whenever it is added to the
	// cluster; nil if that does not matter.
	Generation func(node int) uint64
	// Losses counts the acknowledged messages that other nodes do not get; it may be nil.
	Losses *Losses
}

// defaultGrace is long enough to restart a node, defaultIdleTimeout for three pings.
const (
	defaultGrace       = 10 * time.Second
	defaultIdleTimeout = 3 * time.Second
)

// Mesh manages the links between this node and the others. All methods are safe for concurrent
// use.
type Mesh struct {
	self        int
	incarnation uint64 // random, so that others notice a restart
	engine      *engine.Engine
	net         Net
	log         *slog.Logger
	grace       time.Duration
	idleTimeout time.Duration
	losses      *Losses
	backlog     *backlog.Store
	maxBacklog  int64
	diskLow     func() bool
	generation  func(node int) uint64
	clockOffset func(node int) int64
	table       *table

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex // guards what follows
	peers  map[int]*peer
	closed bool
	tasks  sync.WaitGroup // added to with mu held
}

// New returns a mesh without peers, and registers it with the engine.
func New(o Options) *Mesh {
	m := &Mesh{
		self: o.Self, engine: o.Engine, net: o.Net, log: o.Log, grace: cmp.Or(o.Grace, defaultGrace), idleTimeout: cmp.Or(o.IdleTimeout, defaultIdleTimeout),
		losses: o.Losses, backlog: o.Backlog, maxBacklog: cmp.Or(o.MaxBacklog, DefaultMaxBacklog), diskLow: o.DiskLow, generation: o.Generation, clockOffset: o.ClockOffset, incarnation: randomUint64(), table: newTable(), peers: map[int]*peer{},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.losses == nil {
		m.losses = NewLosses(m.log)
	}
	if m.diskLow == nil {
		m.diskLow = func() bool { return false }
	}
	if m.generation == nil {
		m.generation = func(int) uint64 { return 0 }
	}
	if m.clockOffset == nil {
		m.clockOffset = func(int) int64 { return 0 }
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.engine.Identify(uint16(o.Self)) //nolint:gosec // within its bounds
	m.engine.SetRoutes(m.table)
	return m
}

func randomUint64() uint64 {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return binary.BigEndian.Uint64(b[:])
}

// SetPeers sets the other nodes. Messages that wait for a removed one are given up, also if it was
// added again.
func (m *Mesh) SetPeers(nodes []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	wanted := map[int]bool{}
	for _, id := range nodes {
		wanted[id] = id != m.self
	}
	for id, p := range m.peers {
		if !wanted[id] || p.generation < m.generation(id) {
			delete(m.peers, id)
			m.tasks.Go(func() { p.close(engine.ErrGone) })
		}
	}
	for id, wanted := range wanted {
		if wanted && m.peers[id] == nil {
			m.peers[id] = newPeer(m, id)
		}
	}
}

// Accept serves a connection that another node has dialled. It does not block. The connection
// of an unknown node is closed.
func (m *Mesh) Accept(from int, conn net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[from]
	if m.closed || p == nil {
		conn.Close() //nolint:errcheck // nothing is lost
		return
	}
	m.tasks.Go(func() { p.receiver.serve(conn) })
}

// startupWindow is how long an unreachable node may be about to start, as after a power
// failure of all nodes.
const startupWindow = 2 * time.Second

// WaitForRoutes waits until each peer has sent its routes once, or was unreachable for longer
// than the startup window.
func (m *Mesh) WaitForRoutes(ctx context.Context) {
	m.mu.Lock()
	peers := slices.Collect(maps.Values(m.peers))
	m.mu.Unlock()
	for _, p := range peers {
		select {
		case <-p.ready:
		case <-ctx.Done():
			return
		}
	}
}

// drainTimeout bounds how long Close waits for other nodes.
const drainTimeout = 2 * time.Second

// Close closes all links once their queues are empty, or after a timeout. Messages that are
// not confirmed by then are refused to their publishers. The engine is closed first, so that
// its last messages, the Wills, are sent.
func (m *Mesh) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	m.mu.Lock()
	peers := slices.Collect(maps.Values(m.peers))
	m.mu.Unlock()
	for _, p := range peers {
		p.link.drain(ctx)
	}
	m.mu.Lock()
	if !m.closed {
		m.closed = true
		for _, p := range m.peers {
			m.tasks.Go(func() { p.close(errClosed) })
		}
	}
	m.mu.Unlock()
	m.engine.SetRoutes(nil)
	m.cancel()
	m.tasks.Wait()
	m.losses.Report()
}
