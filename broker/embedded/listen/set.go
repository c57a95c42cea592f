package listen

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"signalbox/broker/embedded/limits"
)

// Options are shared by all listeners.
type Options struct {
	// Timeout bounds the time from accepting a connection to its CONNECT, including
	// everything that comes before MQTT.
	Timeout time.Duration
	// Limits admits connections. It must not be nil.
	Limits *limits.Limits
	// Banned reports whether an address is banned; nil if none is. It must not block.
	Banned func(netip.Addr) bool
	// Watch accepts the connections of plain listeners; nil if each listener has a goroutine.
	Watch Watch
	// Counters, Log and Now may be nil.
	Counters *Counters
	Log      *slog.Logger
	Now      func() time.Time
}

// Set is all the listeners of a broker. Its methods are called in their order here,
// Restrict at any time.
type Set struct {
	listeners []*Listener
	stop      chan struct{}
	tasks     sync.WaitGroup

	opening sync.Mutex  // held while sockets are opened or closed; acquired before mu; guards what follows
	opened  bool        // Bind has succeeded
	handle  func(*Conn) // nil until Serve, and the same from then on

	mu         sync.Mutex         // guards what follows
	pending    map[*Conn]struct{} // guards what follows
	restricted bool               // only the listeners for administrators are open
	stopped    bool
}

// New prepares listeners, which must be valid. It reads certificates but opens no socket.
// Its error names the key.
func New(all []Config, o Options) (*Set, error) {
	if o.Counters == nil {
		o.Counters = &Counters{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Set{stop: make(chan struct{}), pending: map[*Conn]struct{}{}}
	for i, c := range all {
		l, err := newListener(i+1, c, o)
		if err != nil {
			return nil, err
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

// Listeners returns the listeners in the order of their configuration. They are numbered
// from 1.
func (s *Set) Listeners() []*Listener { return s.listeners }

// ReloadCertificates reads all certificate files now, instead of when a client connects
// after a change.
func (s *Set) ReloadCertificates() {
	for _, l := range s.listeners {
		if l.certificates != nil {
			l.certificates.reload()
		}
	}
}

// Bind opens all sockets that are not restricted, or none. Its error is a sentence with
// advice.
func (s *Set) Bind(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, l := range s.listeners {
		if s.isShut(l) {
			continue
		}
		if err := l.bind(ctx); err != nil {
			s.closeSockets()
			return err
		}
	}
	s.opened = true
	return nil
}

// Serve starts accepting. Each connection is passed to handle on a goroutine of its own, which may
// run as long as the connection lasts; one whose socket the runtime does not poll, on the goroutine
// of Watch, which must not wait. Its last owner must close it.
func (s *Set) Serve(handle func(*Conn)) {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.handle = handle
	for _, l := range s.listeners {
		s.serve(l)
	}
}

// serve accepts connections of a listener, if it is open. The caller holds opening.
func (s *Set) serve(l *Listener) {
	if b := l.bound.Load(); b != nil && s.handle != nil && !s.poll(l, b) {
		s.tasks.Go(func() { l.accept(b, s.stop, s.accepted) })
	}
}

// accepted acquires the places of a connection, without blocking, and continues with it on
// a goroutine of its own.
func (s *Set) accepted(c *Conn) {
	if err := c.enter(); err != nil {
		c.listener.lose(c, err)
		return
	}
	if c.polled != nil {
		s.handOver(c)
		return
	}
	s.tasks.Go(func() {
		if err := s.prepare(c); err != nil {
			c.listener.lose(c, err)
			return
		}
		if c.Raw() != nil {
			s.handle(c)
			return
		}
		s.tasks.Go(func() { s.handle(c) }) // the handshake has made this goroutine's stack large
	})
}

// handOver passes on a connection that needs no handshake, unless its listener has been closed.
func (s *Set) handOver(c *Conn) {
	if s.isShut(c.listener) {
		c.listener.lose(c, errStopped)
		return
	}
	s.handle(c)
}

// errStopped ends connections that are not handed over when their listener is closed.
var errStopped = errors.New("the listeners were closed")

// prepare makes a connection ready for MQTT.
func (s *Set) prepare(c *Conn) error {
	if !s.track(c) {
		return errStopped
	}
	err := c.handshake()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, c)
	if c.stopped {
		return errStopped
	}
	return err
}

// track records a connection that is not handed over yet, unless its listener has been
// closed.
func (s *Set) track(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.restricted && !c.listener.config.AdminOnly {
		return false
	}
	s.pending[c] = struct{}{}
	return true
}

// Close stops accepting, and ends connections that are not handed over yet. The others
// stay.
func (s *Set) Close() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	s.shutdownPending(func(*Listener) bool { return true })
	s.mu.Unlock()
	close(s.stop)
	s.opening.Lock()
	defer s.opening.Unlock()
	s.closeSockets()
}

// shutdownPending ends connections of some listeners that are not handed over yet. The
// caller holds mu.
func (s *Set) shutdownPending(of func(*Listener) bool) {
	for c := range s.pending {
		if of(c.listener) {
			c.stopped = true
			c.socket.shutdown()
		}
	}
}

// closeSockets closes all sockets. The caller holds opening.
func (s *Set) closeSockets() {
	for _, l := range s.listeners {
		l.close()
	}
}

// Wait waits for all goroutines of Serve; Close must have been called.
func (s *Set) Wait() { s.tasks.Wait() }
