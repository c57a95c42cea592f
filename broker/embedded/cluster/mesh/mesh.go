// Package mesh carries messages between nodes that all serve clients: it tells
// every other node which topic filters somebody is subscribed to here, and brings
// messages to where somebody is subscribed.
//
// It knows the engine and nothing else of ours; connections between nodes it is
// given. DESIGN.md tells what goes over a link, and what becomes of messages when
// one breaks.
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

	"signalbox/broker/embedded/engine"
)

// Net connects to other nodes.
type Net interface {
	Dial(ctx context.Context, to int) (net.Conn, error)
}

// Options are what a mesh works with.
type Options struct {
	Self   int // number of this node, from 1 to 65,535
	Engine *engine.Engine
	Net    Net
	Log    *slog.Logger // nil for none
	// Grace is how long messages wait for a node that cannot be reached, and its
	// subscriptions are taken to be there; 0 for DefaultGrace.
	Grace time.Duration
	// Ahead returns how many milliseconds the clock of another node's engine is ahead of
	// that of this one; nil where all have the same.
	Ahead func(node int) int64
	// Losses counts the acknowledged messages that other nodes do not get; nil where
	// nobody asks.
	Losses *Losses
}

// DefaultGrace leaves a node the time to be started again.
const DefaultGrace = 10 * time.Second

// Mesh is the links between this node and the others. All methods are safe for
// concurrent use.
type Mesh struct {
	self        int
	incarnation uint64 // of this run, so that others know when it began anew
	engine      *engine.Engine
	net         Net
	log         *slog.Logger
	grace       time.Duration
	losses      *Losses
	ahead       func(node int) int64
	table       *table

	life context.Context // ends with Close
	end  context.CancelFunc

	mu     sync.Mutex // guards what follows
	peers  map[int]*peer
	closed bool
	tasks  sync.WaitGroup // added to with mu held
}

// New makes a mesh without other nodes. The engine tells it of subscriptions from
// then on.
func New(o Options) *Mesh {
	m := &Mesh{
		self: o.Self, engine: o.Engine, net: o.Net, log: o.Log, grace: cmp.Or(o.Grace, DefaultGrace),
		losses: o.Losses, ahead: o.Ahead, incarnation: random(), table: newTable(), peers: map[int]*peer{},
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.losses == nil {
		m.losses = NewLosses(m.log)
	}
	if m.ahead == nil {
		m.ahead = func(int) int64 { return 0 }
	}
	m.life, m.end = context.WithCancel(context.Background())
	m.engine.Identify(uint16(o.Self)) //nolint:gosec // in its bounds
	m.engine.SetRoutes(m.table)
	return m
}

func random() uint64 {
	var b [8]byte
	rand.Read(b[:]) //nolint:errcheck // never fails
	return binary.BigEndian.Uint64(b[:])
}

// SetPeers says which other nodes there are. Messages that wait for one that is
// none any more are given up.
func (m *Mesh) SetPeers(nodes []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	stays := map[int]bool{}
	for _, id := range nodes {
		stays[id] = id != m.self
	}
	for id, p := range m.peers {
		if !stays[id] {
			delete(m.peers, id)
			m.tasks.Go(func() { p.close(engine.ErrGone) })
		}
	}
	for id, stays := range stays {
		if stays && m.peers[id] == nil {
			m.peers[id] = newPeer(m, id)
		}
	}
}

// Accept serves a connection that another node has made. It does not wait. One
// of a node that is not known is closed.
func (m *Mesh) Accept(from int, conn net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.peers[from]
	if m.closed || p == nil {
		conn.Close() //nolint:errcheck // nothing is to be saved
		return
	}
	m.tasks.Go(func() { p.intake.serve(conn) })
}

// startTogether is how long a node that cannot be reached may be about to start, as
// after a loss of power that has met all.
const startTogether = 2 * time.Second

// Heard waits until each of the other nodes has told what is subscribed to there,
// once, or could not be reached for as long as it may take to start.
func (m *Mesh) Heard(ctx context.Context) {
	m.mu.Lock()
	peers := slices.Collect(maps.Values(m.peers))
	m.mu.Unlock()
	for _, p := range peers {
		select {
		case <-p.told:
		case <-ctx.Done():
			return
		}
	}
}

// drainWithin is how long Close waits for other nodes.
const drainWithin = 2 * time.Second

// Close ends all links, once other nodes have what waits for them or they had
// time enough. Messages that are not confirmed by then are refused to their
// publishers. Where the engine is closed, too, that should have happened before,
// so that its last messages, the Wills, are among them.
func (m *Mesh) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), drainWithin)
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
	m.end()
	m.tasks.Wait()
	m.losses.Report()
}
