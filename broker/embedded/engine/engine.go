// Package engine is the MQTT server itself: sessions, connections, delivery.
//
// It must not import an HTTP library, a database, package dynsec or package
// access: who comes in, what passes and what is kept it asks through the
// interfaces that it declares and messaging.LoopGuard. DESIGN.md tells how a message travels, which
// locks there are, and what is durable when.
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

// Parts are what an engine works with.
type Parts struct {
	Store     Store
	Authority Authority
	Watcher   Watcher
	// Control does a request to a control API. It is called on the goroutine of
	// the requester's connection, which waits.
	Control func(*Request)
}

// Engine is an MQTT server. All methods are safe for concurrent use.
type Engine struct {
	config    Config
	store     Store
	authority Authority
	watcher   Watcher
	control   func(*Request)

	meters   *Meters
	index    *topics.Index[*Session]
	taps     *topics.Index[*openTap]
	retained *retained

	peers     atomic.Pointer[[]*Peer]             // nil while there were none; never changed, but replaced under mu
	stamps    atomic.Uint64                       // the latest Stamp of a message
	loopGuard atomic.Pointer[messaging.LoopGuard] // nil for none
	interests atomic.Pointer[interestNotifier]    // nil for none; changed under opening

	openTapsMu sync.Mutex // guards what follows; held while telling Routes
	openTaps   map[*openTap]struct{}

	quotas       *quotas
	queuedMemory atomic.Int64  // of queues of sessions that are stored, see memory
	loading      chan struct{} // holds one for each that reads messages from the store

	lastMessage, lastSession atomic.Uint64
	lastTimestamp            atomic.Uint64
	serials                  atomic.Uint64
	claims                   atomic.Pointer[Claims]
	publishing               readEpochs

	mu       sync.Mutex // guards what follows; see DESIGN.md for the order of locks
	sessions map[string]*Session
	ordered  *btree.BTreeG[*Session] // by client id
	conns    map[*Conn]struct{}
	users    map[string]map[*Conn]struct{} // admitted ones, by username; "" for those without
	closing  bool
	serving  bool // the workers run

	suspending   int             // Suspends that wait for the transition
	resumeCtx    context.Context // ends while the engine is suspended, and when it is being closed
	cancelResume context.CancelCauseFunc

	generation atomic.Pointer[generation] // changed by Suspend and Resume, under retained.mu and mu
	transition chan struct{}              // holds one while the engine is suspended or resumed

	scheduled *schedule

	flushing sync.Mutex // guards toFlush; held for moments only
	toFlush  []*Conn
	flushNow chan struct{}

	life    context.Context // ends when the engine is being closed
	endLife context.CancelFunc
	tasks   sync.WaitGroup // connections and what they started
	workers sync.WaitGroup // goroutines of the engine itself
	once    sync.Once
	stopped chan struct{} // ends the workers
	closed  chan struct{}
}

// New makes an engine, which is suspended until the first Resume.
func New(c Config, p Parts) *Engine {
	e := &Engine{
		config: c, store: p.Store, authority: p.Authority, watcher: p.Watcher, control: p.Control,
		meters: &Meters{}, taps: topics.NewIndex[*openTap](),
		index:    topics.NewIndexWithout(func(s *Session) bool { return s.peer != nil }),
		openTaps: map[*openTap]struct{}{},
		sessions: map[string]*Session{}, conns: map[*Conn]struct{}{}, users: map[string]map[*Conn]struct{}{},
		ordered:    btree.NewBTreeG(func(a, b *Session) bool { return a.clientID < b.clientID }),
		loading:    make(chan struct{}, loadsAtOnce),
		transition: make(chan struct{}, 1), flushNow: make(chan struct{}, 1), stopped: make(chan struct{}), closed: make(chan struct{}),
	}
	e.quotas = newQuotas(&c)
	e.retained, e.scheduled = newRetained(e.now), newSchedule(e)
	e.retained.quotas = e.quotas
	e.life, e.endLife = context.WithCancel(context.Background())
	e.resumeCtx, e.cancelResume = context.WithCancelCause(e.life)
	e.generation.Store(newGeneration(e.store, true))
	return e
}

// now is the time in epoch milliseconds.
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

// addConn takes a connection in, unless the engine is closing.
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

// addUserConn makes a connection known under its username.
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

// removeConn forgets a connection that is at its end.
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

// all returns every session in order of client ids, as they are now.
func (e *Engine) all() []*Session {
	e.mu.Lock()
	snapshot := e.ordered.Copy()
	e.mu.Unlock()
	return snapshot.Items()
}

// session returns the session of a client id, nil if there is none.
func (e *Engine) session(clientID string) *Session {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[clientID]
}

// validDepth holds a topic or filter against the bounds of the configuration.
func (e *Engine) validDepth(topic string) bool {
	c := &e.config
	return (c.MaxTopicLength == 0 || len(topic) <= c.MaxTopicLength) &&
		(c.MaxTopicLevels == 0 || strings.Count(topic, "/") < c.MaxTopicLevels)
}

// DisconnectUser throws out the connections of a username ("" for those without), after
// the messages that wait for them. It does not wait for them to be gone; their
// rights are the new ones already.
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

// Addresses returns the addresses of a username's connections, in order.
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

// Close takes leave of all clients, waits for them to be gone, and closes the
// store. It takes no longer than its context, or the grace period of a
// connection and the store's; what has not ended by then goes on behind it.
func (e *Engine) Close(ctx context.Context) error {
	e.once.Do(func() { go e.shutDown() })
	select {
	case <-e.closed:
		return nil
	case <-ctx.Done():
		return errors.New("connections are still being closed")
	}
}

// shutDown does what Close waits for.
func (e *Engine) shutDown() {
	defer close(e.closed)
	e.mu.Lock()
	e.closing = true
	open := make([]*Conn, 0, len(e.conns))
	for c := range e.conns {
		open = append(open, c)
	}
	e.mu.Unlock()
	e.endLife()
	for _, c := range open {
		c.end(packet.ReasonServerShuttingDown, false)
	}
	e.tasks.Wait()
	e.scheduled.stop()
	e.retained.stop()
	close(e.stopped)
	e.workers.Wait()
}
