package listen

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"signalbox/broker/embedded/guard"
)

// Options are what all listeners share.
type Options struct {
	// Timeout is how long a client has from being accepted to its CONNECT;
	// everything that comes before MQTT included.
	Timeout time.Duration
	// Limits decides who may connect at all. It must not be nil.
	Limits *guard.Limits
	// Banned tells whether an address may not; nil for none. It must not block.
	Banned func(netip.Addr) bool
	// Counters, Log and Now may be nil.
	Counters *Counters
	Log      *slog.Logger
	Now      func() time.Time
}

// Set is all the listeners of a broker. It is used in the order of its methods,
// Restrict at any time.
type Set struct {
	listeners []*Listener
	stop      chan struct{}
	tasks     sync.WaitGroup

	opening sync.Mutex  // held while sockets are opened or closed, and outside of mu; guards what follows
	opened  bool        // Bind has succeeded
	handle  func(*Conn) // nil until Serve, and the same from then on

	mu         sync.Mutex         // guards what follows
	early      map[*Conn]struct{} // connections not yet handed over
	restricted bool               // only the listeners for administrators are open
	stopped    bool
}

// New prepares listeners, which must be valid. It reads certificates but opens
// no socket. Its error names the key.
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
	s := &Set{stop: make(chan struct{}), early: map[*Conn]struct{}{}}
	for i, c := range all {
		l, err := newListener(i+1, c, o)
		if err != nil {
			return nil, err
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

// Listeners gives the listeners in the order of their configuration. They are
// numbered from 1.
func (s *Set) Listeners() []*Listener { return s.listeners }

// ReloadCertificates reads the files of all certificates now, instead of when
// somebody connects after they have changed.
func (s *Set) ReloadCertificates() {
	for _, l := range s.listeners {
		if l.certificates != nil {
			l.certificates.reload()
		}
	}
}

// Bind opens all sockets, as far as they are not restricted, or none. Its error is
// a sentence that says what to do.
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

// Serve begins to accept. Each connection is handed to handle on a goroutine of
// its own, which may take as long as the connection lasts; handle must close it.
func (s *Set) Serve(handle func(*Conn)) {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.handle = handle
	for _, l := range s.listeners {
		s.serve(l)
	}
}

// serve accepts connections of a listener, if it is open. opening is held.
func (s *Set) serve(l *Listener) {
	if b := l.bound.Load(); b != nil && s.handle != nil {
		s.tasks.Go(func() { l.accept(b, s.stop, s.welcome) })
	}
}

// welcome gives a connection its place, at once, and goes on with it on a
// goroutine of its own.
func (s *Set) welcome(c *Conn) {
	if err := c.enter(); err != nil {
		c.listener.lose(c, err)
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

// errStopped ends what has not come to MQTT when its listener is closed.
var errStopped = errors.New("the listeners were closed")

// prepare makes a connection ready for MQTT.
func (s *Set) prepare(c *Conn) error {
	if !s.admit(c) {
		return errStopped
	}
	err := c.handshake()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.early, c)
	if c.stopped {
		return errStopped
	}
	return err
}

// admit notes a connection that is not handed over yet, unless its listener is
// closed by now.
func (s *Set) admit(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.restricted && !c.listener.config.AdminOnly {
		return false
	}
	s.early[c] = struct{}{}
	return true
}

// Close stops accepting, and ends connections that are not handed over yet. The
// others stay.
func (s *Set) Close() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	s.cutEarly(func(*Listener) bool { return true })
	s.mu.Unlock()
	close(s.stop)
	s.opening.Lock()
	defer s.opening.Unlock()
	s.closeSockets()
}

// cutEarly ends connections of some listeners that are not handed over yet. mu is
// held.
func (s *Set) cutEarly(of func(*Listener) bool) {
	for c := range s.early {
		if of(c.listener) {
			c.stopped = true
			c.socket.cut()
		}
	}
}

// closeSockets closes all sockets. opening is held.
func (s *Set) closeSockets() {
	for _, l := range s.listeners {
		l.close()
	}
}

// Wait waits for everything that Serve has begun; Close must come before.
func (s *Set) Wait() { s.tasks.Wait() }
