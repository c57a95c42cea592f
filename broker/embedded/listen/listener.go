package listen

import (
	"context"
	"encoding/pem"
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
	"signalbox/broker/embedded/limits"
)

const (
	// acceptPause is the delay after a failed accept, for example when the process is out
	// of file descriptors.
	acceptPause = 100 * time.Millisecond
	// logInterval is the shortest time between two log lines about the same cause.
	logInterval = time.Minute
)

// Listener accepts clients' connections at one address.
type Listener struct {
	id           int
	config       Config
	options      Options
	trusted      []netip.Prefix
	certificates *certificates // nil without TLS
	open         atomic.Int64  // connections

	bound atomic.Pointer[binding] // nil while closed
	last  atomic.Pointer[address] // that it was last bound to; nil for none

	throttling sync.Mutex // guards throttles
	throttles  map[string]throttle
}

// address is where a listener is bound.
type address struct {
	text string // host:port or a path
	host string // the path of a Unix socket
	port int    // 0 for a Unix socket
}

// binding is the open socket of a listener.
type binding struct {
	net.Listener             // closed if the socket is polled
	file         *socketFile // of a unix socket
	polled       *polled     // nil if the runtime polls it; guarded by Set.opening
}

// throttle is the state of a cause since it was last logged.
type throttle struct {
	last  time.Time
	since int // losses not logged
}

// newListener prepares a listener; it reads certificates but opens no socket.
func newListener(id int, c Config, o Options) (*Listener, error) {
	l := &Listener{id: id, config: c, options: o, trusted: c.trusted(), throttles: map[string]throttle{}}
	if !c.tls() {
		return l, nil
	}
	var err error
	l.certificates, err = openCertificates(c, o.Now, o.Log.With("listener", c.Address))
	return l, err
}

// Config returns the listener's configuration.
func (l *Listener) Config() Config { return l.config }

// AdminOnly reports whether the listener admits administrators only.
func (l *Listener) AdminOnly() bool { return l.config.AdminOnly }

// Addr returns the address that the listener is or was last bound to, host:port or a path;
// before that, the configured one.
func (l *Listener) Addr() string { return l.address().text }

// Bound returns the same as host and port. A Unix socket has port 0 and its path as the host.
func (l *Listener) Bound() (host string, port int) {
	a := l.address()
	return a.host, a.port
}

func (l *Listener) address() *address {
	if a := l.last.Load(); a != nil {
		return a
	}
	return l.addressAt(l.config.Address)
}

// addressAt splits an address.
func (l *Listener) addressAt(text string) *address {
	if l.config.Protocol == Unix {
		return &address{text: text, host: l.config.Address}
	}
	host, port, _ := net.SplitHostPort(text) // validated
	number, _ := strconv.Atoi(port)          // validated
	return &address{text, host, number}
}

// Open returns the number of open connections of the listener.
func (l *Listener) Open() int { return int(l.open.Load()) }

// Describe returns the listener as the management API shows it, with the port it is bound
// to and its current certificates. A Unix socket has port 0 and its path as the address.
func (l *Listener) Describe() broker.Listener {
	host, port := l.Bound()
	d := broker.Listener{
		ID: l.id, BindAddress: host, Port: port, Protocol: "mqtt", TLS: l.config.tls(),
		RequireCertificate: l.config.RequireCertificate, Certs: []broker.ListenerCert{}, Connections: new(l.Open()),
	}
	if l.config.webSocket() {
		d.Protocol = "mqtt+websockets"
	}
	if l.config.tls() {
		d.Certs = l.certificates.get().shown
	}
	return d
}

// CertificateChain returns the certificates that the listener presents, its own first, as PEM;
// nil without TLS.
func (l *Listener) CertificateChain() (chain []byte) {
	if l.certificates == nil {
		return nil
	}
	for _, der := range l.certificates.get().tls.Certificates[0].Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return chain
}

// bind opens the listener's socket, at the port that it had before if any.
func (l *Listener) bind(ctx context.Context) (err error) {
	b := &binding{}
	if l.config.Protocol == Unix {
		b.Listener, b.file, err = bindPath(ctx, l.config)
	} else {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false) // before Linux 6.10 its sockets do not pass all options on to connections
		b.Listener, err = lc.Listen(ctx, "tcp", l.bindAddress())
	}
	if err != nil {
		return l.explain(err)
	}
	l.last.Store(l.addressAt(b.Addr().String()))
	l.bound.Store(b)
	return nil
}

// bindAddress returns the address to be bound: as configured, but with the port that the
// system chose the first time.
func (l *Listener) bindAddress() string {
	host, port, _ := net.SplitHostPort(l.config.Address) // validated
	if port == "0" {
		_, port, _ = net.SplitHostPort(l.Addr())
	}
	return net.JoinHostPort(host, port)
}

// explain turns the error of opening a socket into a sentence with advice.
func (l *Listener) explain(err error) error {
	advice := "check the address"
	switch {
	case errors.Is(err, errNoSocket):
		advice = "a file that is not a socket has this path: move it away or configure another path"
	case errors.Is(err, errForeignSocket):
		advice = "another user's socket has this path: remove it or configure another path"
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
func (l *Listener) accept(socket net.Listener, stop <-chan struct{}, accepted func(*Conn)) {
	for {
		raw, err := socket.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			l.noteAccept(err)
			if !pause(stop, acceptPause) {
				return
			}
		default:
			l.options.Counters.Accepted.Add(1)
			accepted(l.newConn(raw))
		}
	}
}

// noteAccept logs that accepting has failed.
func (l *Listener) noteAccept(err error) {
	if times, due := l.logDue(causeAccept); due {
		l.options.Log.Warn("connections could not be accepted", "listener", l.config.Address, "error", err, "times", times)
	}
}

// pause waits, and reports whether the caller continues afterwards.
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

func (l *Listener) newConn(raw net.Conn) *Conn {
	s := &socket{descriptor: raw.(descriptor), counters: l.options.Counters} //nolint:forcetypeassert // TCP and unix are
	return &Conn{
		Conn: s, socket: s, listener: l, remote: raw.RemoteAddr(),
		deadline: l.options.Now().Add(l.options.Timeout),
	}
}

// lose closes a connection that failed and counts it.
func (l *Listener) lose(c *Conn, err error) {
	c.Close() //nolint:errcheck // it has failed already
	if !c.evicted.Load() && !errors.Is(err, errStopped) {
		l.note(c.RemoteAddr(), err)
	}
}

// note counts a connection that failed. Each cause is logged at most once per logInterval:
// an attacker decides how many there are.
func (l *Listener) note(remote net.Addr, err error) {
	cause := causeGone
	if lost, ok := errors.AsType[*loss](err); ok {
		cause = lost.cause
	}
	l.options.Counters.lose(cause)
	if times, due := l.logDue(cause); due {
		l.options.Log.Log(context.Background(), level(err), "connections failed",
			"listener", l.config.Address, "cause", cause, "remote", remote.String(), "error", err, "times", times)
	}
}

// level returns warn for connections refused by a limit; any other cause may be the peer's
// own doing.
func level(err error) slog.Level {
	if _, limit := errors.AsType[limits.Refusal](err); limit || errors.Is(err, errFull) {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// logDue reports whether a cause is to be logged now, and how many losses the line
// stands for.
func (l *Listener) logDue(cause string) (times int, due bool) {
	now := l.options.Now()
	l.throttling.Lock()
	defer l.throttling.Unlock()
	known, before := l.throttles[cause]
	known.since++
	if before && now.Sub(known.last) < logInterval {
		l.throttles[cause] = known
		return 0, false
	}
	l.throttles[cause] = throttle{last: now}
	return known.since, true
}

// close stops accepting and releases the address. Connections stay open. The caller holds
// Set.opening.
func (l *Listener) close() {
	b := l.bound.Swap(nil)
	if b == nil {
		return
	}
	if b.polled != nil {
		b.polled.close()
		return
	}
	b.Close() //nolint:errcheck // nothing left to do with it
	if b.file != nil {
		b.file.remove()
	}
}
