package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/guard"
)

const (
	// acceptPause is how long a listener rests after a failed accept, as when
	// the process is out of file descriptors.
	acceptPause = 100 * time.Millisecond
	// complaintInterval is how often a cause of losses is logged, at most.
	complaintInterval = time.Minute
)

// Listener is one place where clients are accepted.
type Listener struct {
	id           int
	config       Config
	options      Options
	trusted      []netip.Prefix
	certificates *certificates // nil without TLS
	open         atomic.Int64  // connections

	bound atomic.Pointer[binding] // nil while it is closed
	last  atomic.Pointer[string]  // the address that it was bound to last; nil for none

	complaining sync.Mutex // guards complained
	complained  map[string]complaint
}

// binding is what a listener is bound to.
type binding struct {
	net.Listener
	file *socketFile // of a unix socket
}

// complaint is what is known of a cause since it was last logged.
type complaint struct {
	last  time.Time
	since int // losses not logged
}

// newListener prepares a listener; it reads certificates but opens no socket.
func newListener(id int, c Config, o Options) (*Listener, error) {
	l := &Listener{id: id, config: c, options: o, trusted: c.trusted(), complained: map[string]complaint{}}
	if !c.tls() {
		return l, nil
	}
	var err error
	l.certificates, err = openCertificates(c, o.Now, o.Log.With("listener", c.Address))
	return l, err
}

// Config is how the listener is configured.
func (l *Listener) Config() Config { return l.config }

// Addr is the address that the listener is bound to, as soon as it is, before
// that the configured one: host:port, or a path. It keeps it while it is closed.
func (l *Listener) Addr() string {
	if a := l.last.Load(); a != nil {
		return *a
	}
	return l.config.Address
}

// Open is how many connections the listener has now.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Describe gives the listener as the management API shows it, with the port it
// is bound to and the certificates that it shows now. A unix socket has port 0
// and its path for address.
func (l *Listener) Describe() broker.Listener {
	d := broker.Listener{
		ID: l.id, BindAddress: l.config.Address, Protocol: "mqtt", TLS: l.config.tls(),
		RequireCertificate: l.config.RequireCertificate, Certs: []broker.ListenerCert{},
	}
	if l.config.webSocket() {
		d.Protocol = "mqtt+websockets"
	}
	if l.config.tls() {
		d.Certs = l.certificates.get().shown
	}
	if l.config.Protocol == Unix {
		return d
	}
	host, port, _ := net.SplitHostPort(l.Addr()) // validated
	d.BindAddress = host
	d.Port, _ = strconv.Atoi(port) // validated
	return d
}

// bind opens the listener's socket, again at the port where it was.
func (l *Listener) bind(ctx context.Context) (err error) {
	b := &binding{}
	if l.config.Protocol == Unix {
		b.Listener, b.file, err = bindPath(ctx, l.config)
	} else {
		b.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", l.place())
	}
	if err != nil {
		return l.explain(err)
	}
	address := b.Addr().String()
	l.last.Store(&address)
	l.bound.Store(b)
	return nil
}

// place is the address to be bound: as configured, but with the port that the
// system gave the first time.
func (l *Listener) place() string {
	host, port, _ := net.SplitHostPort(l.config.Address) // validated
	if port == "0" {
		_, port, _ = net.SplitHostPort(l.Addr())
	}
	return net.JoinHostPort(host, port)
}

// explain turns the failure to open a socket into a sentence that says what to
// do.
func (l *Listener) explain(err error) error {
	advice := "check the address"
	switch {
	case errors.Is(err, errNoSocket):
		advice = "something else is there: move it away or configure another path"
	case errors.Is(err, errForeignSocket):
		advice = "another user's socket is there: remove it or configure another path"
	case errors.Is(err, syscall.EADDRINUSE):
		advice = "the port is in use: stop the program that uses it or configure another port"
		if l.config.Protocol == Unix {
			advice = "the socket is in use: stop the program that uses it or configure another path"
		}
	case errors.Is(err, syscall.EACCES):
		advice = "the system does not let this user open the port: configure a port above 1023"
		if l.config.Protocol == Unix {
			advice = "the system does not let this user write there: configure another path"
		}
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		advice = "no interface of this machine has that address"
	}
	return fmt.Errorf("broker cannot listen on %s (%s): %s: %w", l.Addr(), l.config.key("address"), advice, err)
}

// accept accepts connections until the socket is closed.
func (l *Listener) accept(socket net.Listener, stop <-chan struct{}, welcome func(*Conn)) {
	for {
		accepted, err := socket.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			if times, due := l.complain(causeAccept); due {
				l.options.Log.Warn("connections could not be accepted", "listener", l.config.Address, "error", err, "times", times)
			}
			if !pause(stop, acceptPause) {
				return
			}
		default:
			l.options.Counters.Accepted.Add(1)
			welcome(l.newConn(accepted))
		}
	}
}

// pause waits, and tells whether to go on afterwards.
func pause(stop <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
		return false
	}
}

func (l *Listener) newConn(accepted net.Conn) *Conn {
	s := &socket{descriptor: accepted.(descriptor), counters: l.options.Counters} //nolint:forcetypeassert // TCP and unix are
	return &Conn{
		Conn: s, socket: s, listener: l, remote: accepted.RemoteAddr(),
		until: l.options.Now().Add(l.options.Timeout),
	}
}

// lose closes a connection that came to nothing.
func (l *Listener) lose(c *Conn, err error) {
	c.Close() //nolint:errcheck // it came to nothing
	if !c.gaveWay.Load() && !errors.Is(err, errStopped) {
		l.note(c.remote, err)
	}
}

// note counts a connection that came to nothing. Each cause is logged now and
// then: there may be many of them, and as many as an attacker likes.
func (l *Listener) note(remote net.Addr, err error) {
	cause := causeGone
	if lost, ok := errors.AsType[*loss](err); ok {
		cause = lost.cause
	}
	l.options.Counters.lose(cause)
	if times, due := l.complain(cause); due {
		l.options.Log.Log(context.Background(), level(err), "connections come to nothing",
			"listener", l.config.Address, "cause", cause, "remote", remote.String(), "error", err, "times", times)
	}
}

// level is a warning where clients are lost for want of room; anything else may
// be the peer's own business.
func level(err error) slog.Level {
	if _, limit := errors.AsType[guard.Refusal](err); limit || errors.Is(err, errFull) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// complain tells whether a cause is to be logged now, and how many losses that
// stands for.
func (l *Listener) complain(cause string) (times int, due bool) {
	now := l.options.Now()
	l.complaining.Lock()
	defer l.complaining.Unlock()
	known, before := l.complained[cause]
	known.since++
	if before && now.Sub(known.last) < complaintInterval {
		l.complained[cause] = known
		return 0, false
	}
	l.complained[cause] = complaint{last: now}
	return known.since, true
}

// close stops accepting and gives the address free. Connections stay.
func (l *Listener) close() {
	b := l.bound.Swap(nil)
	if b == nil {
		return
	}
	b.Close() //nolint:errcheck // nothing left to do with it
	if b.file != nil {
		b.file.remove()
	}
}
