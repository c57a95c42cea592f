// Package sessions keeps a client id to one node of a cluster in which every node
// serves clients. Whoever connects is claimed at all other nodes first: a node
// that has the client id ends its connection and hands the session over.
//
// It works on the engine alone and knows no network: requests go through Net.
// DESIGN.md tells the steps, and what happens when one of them fails.
package sessions

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/embedded/engine"
)

// Net reaches the other nodes.
type Net interface {
	// Peers gives the nodes that are to be asked, without this one.
	Peers() []int
	// Ask puts a request to a node and gives what its Serve answers. It ends with
	// its context. Requests and answers are below 16 MiB.
	Ask(ctx context.Context, to int, request []byte) ([]byte, error)
}

// Options say what claims work with. Self, Engine and Net are needed.
type Options struct {
	Self   int // this node's number
	Engine *engine.Engine
	Net    Net
	// Flush waits until a peer has taken in all messages that this node has sent
	// to it so far, or until they were given up.
	Flush func(ctx context.Context, to int) error

	// Discarded is told how many messages above QoS 0 a session had that ends because
	// its client has begun another one at a node meanwhile.
	Discarded func(node, messages int)

	// Ahead returns how many milliseconds the clock of another node's engine is ahead of
	// that of this one; nil where all have the same.
	Ahead func(node int) int64

	Log      *slog.Logger
	Patience time.Duration // how long a peer is waited for at each step; 2 s
	Hold     time.Duration // how long a session is held for a peer that is not heard of; 30 s
	Probe    time.Duration // how often peers that did not answer are tried; 1 s
}

func (o *Options) setDefaults() {
	if o.Flush == nil {
		o.Flush = func(context.Context, int) error { return nil }
	}
	if o.Discarded == nil {
		o.Discarded = func(int, int) {}
	}
	if o.Ahead == nil {
		o.Ahead = func(int) int64 { return 0 }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&o.Patience, 2 * time.Second}, {&o.Hold, 30 * time.Second}, {&o.Probe, time.Second}} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
}

// Claims are one node's. All methods are safe for concurrent use.
type Claims struct {
	o      Options
	turns  *turns
	counts counts
	draws  chan struct{} // a place for each session that is drawn for another node

	stirred chan struct{} // a silent peer was heard of

	mu       sync.Mutex // guards what follows; never held while calling out
	givings  map[uint64]*giving
	peers    map[int]*peer
	pending  map[receipt]farewell
	closed   bool
	life     context.Context
	end      context.CancelFunc
	tasks    sync.WaitGroup
	nextGift uint64
}

// Figures tell what has happened since the start.
type Figures struct {
	Claims     int64 // clients that connected
	Later      int64 // of these, refused because a later connection has the session
	Taken      int64 // sessions that came from other nodes
	Given      int64 // sessions that went to other nodes
	Messages   int64 // that came with sessions
	Kept       int64 // sessions that were to go and stayed
	PassedOver int64 // peers that clients were let in without, for each time
	Reconciled int64 // sessions that were at two nodes and were made one
	Waiting    int   // sessions that are being given, now
	Unanswered int   // peers that do not answer, now
}

type counts struct {
	claims, later, taken, given, messages, kept, passedOver, reconciled atomic.Int64
}

// New makes claims. Nothing is claimed before Open; Serve answers at once.
func New(o Options) *Claims {
	o.setDefaults()
	c := &Claims{
		o: o, turns: newTurns(), draws: make(chan struct{}, maxDraws), stirred: make(chan struct{}, 1), nextGift: rand.Uint64(),
		givings: map[uint64]*giving{}, peers: map[int]*peer{}, pending: map[receipt]farewell{},
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Open has the engine's clients claimed from now on.
func (c *Claims) Open() {
	c.o.Engine.SetClaims(c)
	c.start(c.probe)
}

// Close ends that. Sessions that are on their way stay where they are. Where the
// engine and the links to other nodes are closed, too, that comes first.
func (c *Claims) Close() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.o.Engine.SetClaims(nil)
	}
	c.end()
	c.tasks.Wait()
}

// start runs something that Close waits for. It answers false where claims are
// closed.
func (c *Claims) start(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(do)
	return true
}

// Figures gives them as they are now.
func (c *Claims) Figures() Figures {
	n := &c.counts
	f := Figures{
		Claims: n.claims.Load(), Later: n.later.Load(), Taken: n.taken.Load(), Given: n.given.Load(), Messages: n.messages.Load(),
		Kept: n.kept.Load(), PassedOver: n.passedOver.Load(), Reconciled: n.reconciled.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Waiting = len(c.givings)
	for _, p := range c.peers {
		if p.silent {
			f.Unanswered++
		}
	}
	return f
}
