// Package sessions ensures that in a cluster in which every node serves clients, a client id
// has its session at one node only. A connecting client id is claimed at all other nodes
// first: a node that has it ends its connection and hands the session over.
//
// The package does not know the network: requests go through Net.
// DESIGN.md describes the protocol and its failure cases.
package sessions

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/embedded/engine"
)

// Net sends requests to the other nodes.
type Net interface {
	// Peers returns the other nodes of the cluster. It returns false while this node does
	// not take part in the cluster: they are not known then.
	Peers() (nodes []int, ok bool)
	// Ask sends a request to a node and returns what its Serve returns. It ends when ctx does.
	// Requests and responses are smaller than 16 MiB. The error is a syscall.ECONNREFUSED if
	// nothing listens at the node's address, and an ErrRefused if the node's Serve returned one.
	Ask(ctx context.Context, to int, request []byte) ([]byte, error)
}

// ErrRefused is the error of a request to which a node has responded with an error.
var ErrRefused = errors.New("the node refuses the request")

// Options configures a Coordinator. Self, Engine and Net are required.
type Options struct {
	Self   int // this node's number
	Engine *engine.Engine
	Net    Net
	// Flush waits until a peer has received all messages that this node has sent to it so far,
	// or until they were given up.
	Flush func(ctx context.Context, to int) error

	// Discarded is called with the number of messages above QoS 0 in a session that ends
	// because its client began another one at node meanwhile.
	Discarded func(node, messages int)

	// ClockOffset returns how many milliseconds the clock of another node's engine is ahead of
	// this node's; nil means that all clocks agree.
	ClockOffset func(node int) int64

	Log            *slog.Logger
	RequestTimeout time.Duration // timeout of each request to a peer; 2 s
	HandoffTimeout time.Duration // how long a session is held for a peer that is not heard from; 30 s
	ProbeInterval  time.Duration // interval at which unreachable peers are retried; 1 s
}

func (o *Options) setDefaults() {
	if o.Flush == nil {
		o.Flush = func(context.Context, int) error { return nil }
	}
	if o.Discarded == nil {
		o.Discarded = func(int, int) {}
	}
	if o.ClockOffset == nil {
		o.ClockOffset = func(int) int64 { return 0 }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&o.RequestTimeout, 2 * time.Second}, {&o.HandoffTimeout, 30 * time.Second}, {&o.ProbeInterval, time.Second}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
}

// Coordinator moves sessions between this node and the others. All methods are safe for
// concurrent use.
type Coordinator struct {
	o         Options
	leases    *leases
	counts    counts
	pullSlots chan struct{} // semaphore of the sessions being pulled for other nodes

	wakeProbe chan struct{} // an unreachable peer has sent a request
	draining  atomic.Bool   // this node moves its sessions to others, and takes none over from nodes that do
	stopping  atomic.Bool   // the peers hear that this node stops, and must not find out that it still responds
	stopped   atomic.Bool   // they do not wait for this node any more

	mu           sync.Mutex // guards what follows; never held during calls to other packages
	handoffs     map[uint64]*handoff
	inDoubt      map[string]*handoff // of these, by client id: the session may have moved
	parts        map[string]int      // nodes that may have a part of a session of this one, by client id
	peers        map[int]*peer
	unconfirmed  map[transferKey]confirmation
	closed       bool
	ctx          context.Context
	cancel       context.CancelFunc
	tasks        sync.WaitGroup
	nextTransfer uint64
}

// Figures counts events since the start, and states what is in progress.
type Figures struct {
	Claims             int64 // clients that connected
	Superseded         int64 // of these, refused because a later connection has the session
	Received           int64 // sessions moved here
	HandedOver         int64 // sessions moved to other nodes
	Messages           int64 // messages that came with sessions
	Kept               int64 // sessions that were offered and stayed
	Skipped            int64 // unreachable peers that claims were completed without, counted per claim
	Reconciled         int64 // sessions found at two nodes and merged or ended
	HandoffsInProgress int   // handoffs in progress now
	InDoubt            int   // sessions in doubt now: they may have moved to a node that does not respond
	Unreachable        int   // peers that are unreachable now
}

type counts struct {
	claims, superseded, received, handedOver, messages, kept, skipped, reconciled atomic.Int64
}

// New returns a Coordinator that serves requests at once. It claims nothing before Open.
func New(o Options) *Coordinator {
	o.setDefaults()
	c := &Coordinator{
		o: o, leases: newLeases(), pullSlots: make(chan struct{}, maxPulls), wakeProbe: make(chan struct{}, 1), nextTransfer: rand.Uint64(),
		handoffs: map[uint64]*handoff{}, inDoubt: map[string]*handoff{}, parts: map[string]int{}, peers: map[int]*peer{}, unconfirmed: map[transferKey]confirmation{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Open begins to claim the client ids of the engine's clients.
func (c *Coordinator) Open() {
	c.o.Engine.SetClaims(c)
	c.startTask(c.probePeers)
}

// Close stops claiming. Sessions that are being moved, or are in doubt, stay where they are.
// Close comes before the links to other nodes are closed; the engine may be closed already.
func (c *Coordinator) Close() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.o.Engine.SetClaims(nil)
	}
	c.cancel()
	c.tasks.Wait()
	for _, h := range c.doubts(func(int) bool { return true }) { // they would stay frozen
		c.keep(h)
	}
}

// startTask runs a function that Close waits for. It reports whether it did: a closed
// Coordinator starts nothing.
func (c *Coordinator) startTask(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(do)
	return true
}

// Figures returns the current figures.
func (c *Coordinator) Figures() Figures {
	n := &c.counts
	f := Figures{
		Claims: n.claims.Load(), Superseded: n.superseded.Load(), Received: n.received.Load(), HandedOver: n.handedOver.Load(), Messages: n.messages.Load(),
		Kept: n.kept.Load(), Skipped: n.skipped.Load(), Reconciled: n.reconciled.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.HandoffsInProgress, f.InDoubt = len(c.handoffs)-len(c.inDoubt), len(c.inDoubt)
	for _, p := range c.peers {
		if p.unreachable {
			f.Unreachable++
		}
	}
	return f
}
