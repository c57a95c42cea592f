// Package engine is the MQTT server: sessions, connections, delivery.
//
// It must not import an HTTP library, a database, package dynsec or package access:
// authentication, authorisation and storage are behind interfaces that it declares, and
// messaging.LoopGuard. DESIGN.md describes the path of a message, the locks, and what is
// durable when.
package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Parts are the dependencies of an engine.
type Parts struct {
	Store     Store
	Authority Authority
	Watcher   Watcher
	// Observe is called with every accepted message, before it is delivered. It must not
	// block, and not keep the payload; nil for none.
	Observe func(topic string, payload []byte, qos byte, retain bool)
	// Control handles a request to a control API. It is called on the goroutine of the
	// requester's connection, which waits.
	Control func(*Request)
}

// Engine is an MQTT server. All methods are safe for concurrent use.
type Engine struct {
	config    Config
	store     Store
	authority Authority
	watcher   Watcher
	observe   func(topic string, payload []byte, qos byte, retain bool)
	control   func(*Request)

	meters   *meters
	index    *topics.Index[*Session]
	taps     *topics.Index[*openTap]
	retained *retained

	peers     atomic.Pointer[[]*Peer]             // nil until the first; the slice is replaced under mu, never changed
	stamps    atomic.Uint64                       // the latest Stamp of a message
	loopGuard atomic.Pointer[messaging.LoopGuard] // nil for none
	interests atomic.Pointer[interestNotifier]    // nil for none; changed under openTapsMu
	reference atomic.Pointer[string]              // names the servers that clients are referred to; nil for none
	stays     atomic.Pointer[func(Rights) bool]   // which clients are not referred to other servers; nil if all are accepted

	openTapsMu sync.Mutex // guards openTaps; held while calling Routes
	openTaps   map[*openTap]struct{}

	quotas       *quotas
	queuedMemory atomic.Int64  // bytes of queued messages in memory, see memory
	loading      chan struct{} // holds one for each reader of messages from the store

	lastMessage, lastSession atomic.Uint64
	lastTimestamp            atomic.Uint64
	serials                  atomic.Uint64
	claims                   atomic.Pointer[Claims]
	publishing               *readEpochs
	received                 receivedLog

	mu       sync.Mutex // guards what follows; see DESIGN.md for the order of locks
	sessions map[string]*Session
	ordered  *btree.BTreeG[*Session] // by client id
	conns    map[*Conn]struct{}
	users    map[string]map[*Conn]struct{} // admitted ones, by username; "" for those without
	closing  bool
	serving  bool // the workers are running

	suspending   int             // Suspend calls in progress
	resumeCtx    context.Context // of every Resume; ends when Suspend or Close begins
	cancelResume context.CancelCauseFunc

	generation atomic.Pointer[generation] // changed by Suspend and Resume, under retained.mu and mu
	transition chan struct{}              // holds one while the engine is suspended or resumed

	scheduled *schedule
	silent    *silent
	loops     loops

	flushing sync.Mutex // guards toFlush; held for moments only
	toFlush  []*Conn
	flushNow chan struct{}

	ctx     context.Context // ends when Close begins
	cancel  context.CancelFunc
	tasks   sync.WaitGroup // connections and goroutines that they started
	workers sync.WaitGroup // the engine's own goroutines
	once    sync.Once
	stopped chan struct{} // ends the workers
	closed  chan struct{}
}

// New returns an engine, which is suspended until the first Resume.
func New(c Config, p Parts) *Engine {
	if p.Observe == nil {
		p.Observe = func(string, []byte, byte, bool) {}
	}
	e := &Engine{
		config: c, store: p.Store, authority: p.Authority, watcher: p.Watcher, observe: p.Observe, control: p.Control,
		meters: &meters{}, taps: topics.NewIndex[*openTap](),
		index:    topics.NewIndexWithout(func(s *Session) bool { return s.peer != nil }),
		openTaps: map[*openTap]struct{}{}, publishing: newReadEpochs(),
		sessions: map[string]*Session{}, conns: map[*Conn]struct{}{}, users: map[string]map[*Conn]struct{}{},
		ordered:    btree.NewBTreeG(func(a, b *Session) bool { return a.clientID < b.clientID }),
		loading:    make(chan struct{}, loadsAtOnce),
		transition: make(chan struct{}, 1), flushNow: make(chan struct{}, 1), stopped: make(chan struct{}), closed: make(chan struct{}),
	}
	e.quotas = newQuotas(&c)
	e.retained, e.scheduled = newRetained(e.now), newSchedule(e)
	e.retained.quotas = e.quotas
	e.silent = newSilent(e)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.resumeCtx, e.cancelResume = context.WithCancelCause(e.ctx)
	e.generation.Store(newGeneration(e.store, true))
	return e
}

// now returns the time in epoch milliseconds.
func (e *Engine) now() int64 { return e.config.Now().UnixMilli() }

// startWorkers starts the engine's own goroutines, once. mu is held, and the
// engine is not closing.
func (e *Engine) startWorkers() {
	if e.serving {
		return
	}
	e.serving = true
	e.workers.Go(e.runFlusher)
	e.workers.Go(e.scheduled.run)
}

// addConn adds a connection, unless the engine is closing.
func (e *Engine) addConn(c *Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return false
	}
	e.conns[c] = struct{}{}
	e.tasks.Add(1)
	e.startWorkers()
	return true
}

// addUserConn adds a connection to those of its username.
func (e *Engine) addUserConn(c *Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := c.userKey()
	if e.users[name] == nil {
		e.users[name] = map[*Conn]struct{}{}
	}
	e.users[name][c] = struct{}{}
}

func (c *Conn) userKey() string {
	if c.anonymous {
		return ""
	}
	return c.username
}

// removeConn removes a connection that has ended.
func (e *Engine) removeConn(c *Conn) {
	e.mu.Lock()
	delete(e.conns, c)
	name := c.userKey()
	delete(e.users[name], c)
	if len(e.users[name]) == 0 {
		delete(e.users, name)
	}
	e.mu.Unlock()
	close(c.done)
	e.tasks.Done()
}

// all returns the present sessions in order of client ids.
func (e *Engine) all() []*Session {
	return e.snapshot().Items()
}

// session returns the session of a client id, nil if there is none.
func (e *Engine) session(clientID string) *Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[clientID]
}

// validDepth reports whether a topic or filter is within the bounds of the
// configuration.
func (e *Engine) validDepth(topic string) bool {
	c := &e.config
	return (c.MaxTopicLength == 0 || len(topic) <= c.MaxTopicLength) &&
		(c.MaxTopicLevels == 0 || strings.Count(topic, "/") < c.MaxTopicLevels)
}

// DisconnectUser ends the connections of a username ("" for clients without one), after
// the messages that are queued for them. It does not wait for their end; they have their
// new rights already.
func (e *Engine) DisconnectUser(username string) {
	for _, c := range e.connectionsOf(username) {
		if c.evicted.CompareAndSwap(false, true) {
			e.config.Log.Debug("client cut off", "username", username, "remote", c.socket.Address)
			c.end(packet.ReasonAdministrativeAction, true)
		}
	}
}

func (e *Engine) connectionsOf(username string) []*Conn {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []*Conn
	for c := range e.users[username] {
		found = append(found, c)
	}
	return found
}

// Addresses returns the sorted addresses of a username's connections.
func (e *Engine) Addresses(username string) []string {
	var found []string
	for _, c := range e.connectionsOf(username) {
		if c.established.Load() {
			found = append(found, c.socket.Address)
		}
	}
	slices.Sort(found)
	return found
}

// Close disconnects all clients (0x8B), publishes their Wills without delay, and stops the
// engine's goroutines. It does not close the store. It refuses new connections, cancels
// log-ins, and waits until all connections have ended, for which the store must still
// report outcomes. If the context ends first, Close returns an error and closing continues
// in the background.
func (e *Engine) Close(ctx context.Context) error {
	e.once.Do(func() { go e.shutDown() })
	select {
	case <-e.closed:
		return nil
	case <-ctx.Done():
		return errors.New("connections are still being closed")
	}
}

// shutDown is the work of Close.
func (e *Engine) shutDown() {
	defer close(e.closed)
	e.mu.Lock()
	e.closing = true
	open := make([]*Conn, 0, len(e.conns))
	for c := range e.conns {
		open = append(open, c)
	}
	e.mu.Unlock()
	e.cancel()
	for _, c := range open {
		c.end(packet.ReasonServerShuttingDown, false)
	}
	e.tasks.Wait()
	e.scheduled.stop()
	e.retained.stop()
	close(e.stopped)
	e.loops.close()
	e.workers.Wait()
}
