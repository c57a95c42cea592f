package router

import (
	fifo "container/list"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// connections bounds the HTTP connections, overall and per address. At a bound, a
// connection without a request in progress is closed in favour of the new one: of the
// new one's own address, or of the address with most connections. So requests are
// served however many connections are idle. If all are busy, the address with most
// loses its oldest one, or the new connection is closed if that is its own address:
// requests whose bodies never end keep no other address out.
type connections struct {
	most, mostEach int     // 0 is unbounded
	exempt         proxies // from mostEach: proxies forward for many callers
	log            *slog.Logger
	closed         *prometheus.CounterVec

	mu      sync.Mutex // protects what follows, and the fields of boundedConn
	open    int
	each    map[netip.Addr]int
	all     fifo.List            // of *boundedConn, oldest first
	waiting fifo.List            // of *boundedConn without a request in progress, oldest first
	logged  map[string]time.Time // when a cause was last logged
}

// logInterval is the minimum interval between two log lines of a cause.
const logInterval = time.Minute

// The causes of closed and refused connections.
const (
	causeMost     = "max_connections"
	causeMostEach = "max_connections_per_address"
	causeAccept   = "accept"
)

func newConnections(cfg Config, exempt proxies, log *slog.Logger) *connections {
	return &connections{
		most: cfg.MaxConnections, mostEach: cfg.MaxConnectionsPerAddress, exempt: exempt, log: log,
		each: map[netip.Addr]int{}, logged: map[string]time.Time{},
		closed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "signalbox_http_connections_closed_total",
			Help: "HTTP connections closed because a bound was reached, by the bound; and attempts to accept one that failed.",
		}, []string{"cause"}),
	}
}

// collectors returns the metrics.
func (cs *connections) collectors() []prometheus.Collector {
	return []prometheus.Collector{cs.closed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "signalbox_http_connections", Help: "HTTP connections.",
	}, func() float64 {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		return float64(cs.open)
	})}
}

// boundedListener accepts connections within bounds.
type boundedListener struct {
	net.Listener
	connections *connections
}

// Accept returns the next connection within the bounds.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.connections.note(causeAccept, l.Addr(), err)
			}
			return nil, err
		}
		if c := l.connections.admit(raw); c != nil {
			return c, nil
		}
		raw.Close() //nolint:errcheck // it exceeds a bound
	}
}

// boundedConn is a connection that counts until it is closed.
type boundedConn struct {
	net.Conn
	connections *connections
	address     netip.Addr
	exempt      bool          // from the bound of its address
	place       *fifo.Element // in connections.all
	waiting     *fifo.Element // nil while a request is in progress
	over        bool
}

// Close closes the connection, which then no longer counts.
func (c *boundedConn) Close() error {
	c.connections.release(c)
	return c.Conn.Close()
}

// CloseWrite closes the sending side only.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// admit counts a connection, or returns nil if a bound does not allow it.
func (cs *connections) admit(raw net.Conn) *boundedConn {
	c := &boundedConn{Conn: raw, connections: cs}
	c.address, c.exempt = cs.addressOf(raw)
	victim, cause, ok := cs.enter(c)
	if cause != "" {
		cs.note(cause, raw.RemoteAddr(), nil)
	}
	if victim != nil {
		victim.Close() //nolint:errcheck // whatever is in progress
	}
	if !ok {
		return nil
	}
	return c
}

// enter counts a connection and chooses the one to close in its favour.
func (cs *connections) enter(c *boundedConn) (victim *boundedConn, cause string, ok bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.mostEach > 0 && !c.exempt && cs.each[c.address] >= cs.mostEach:
		victim, cause = cs.oldestWaiting(c.address), causeMostEach
	case cs.most > 0 && cs.open >= cs.most:
		victim, cause = cs.ofLargest(&cs.waiting, 0), causeMost
		if victim == nil {
			victim = cs.ofLargest(&cs.all, cs.each[c.address]+1)
		}
	}
	if cause != "" && victim == nil {
		return nil, cause, false
	}
	if victim != nil {
		cs.forget(victim)
	}
	cs.open++
	cs.each[c.address]++
	c.place = cs.all.PushBack(c)
	c.waiting = cs.waiting.PushBack(c)
	return victim, cause, true
}

// oldestWaiting returns a connection of an address without a request in progress.
func (cs *connections) oldestWaiting(address netip.Addr) *boundedConn {
	for e := cs.waiting.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*boundedConn); c.address == address { //nolint:forcetypeassert // the list has only these
			return c
		}
	}
	return nil
}

// ofLargest returns the first connection of a list whose address has most connections,
// or nil if none has more than least. Trusted proxies forward for many callers, and
// lose only idle connections.
func (cs *connections) ofLargest(list *fifo.List, least int) (found *boundedConn) {
	for e := list.Front(); e != nil; e = e.Next() {
		c := e.Value.(*boundedConn) //nolint:forcetypeassert // the list has only these
		if has := cs.each[c.address]; has > least && (c.waiting != nil || !c.exempt) {
			found, least = c, has
		}
	}
	return found
}

func (cs *connections) release(c *boundedConn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.forget(c)
}

// forget stops counting a connection. mu is held.
func (cs *connections) forget(c *boundedConn) {
	if c.over {
		return
	}
	c.over = true
	cs.setWaiting(c, false)
	cs.all.Remove(c.place)
	cs.open--
	if cs.each[c.address]--; cs.each[c.address] == 0 {
		delete(cs.each, c.address)
	}
}

// setWaiting records whether a request is in progress. mu is held.
func (cs *connections) setWaiting(c *boundedConn, waiting bool) {
	if c.waiting != nil {
		cs.waiting.Remove(c.waiting)
		c.waiting = nil
	}
	if waiting {
		c.waiting = cs.waiting.PushBack(c)
	}
}

// onState is called by the server when the state of a connection changes.
func (cs *connections) onState(conn net.Conn, state http.ConnState) {
	c, ok := innermost(conn).(*boundedConn)
	if !ok || state != http.StateActive && state != http.StateIdle && state != http.StateHijacked {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if !c.over {
		cs.setWaiting(c, state == http.StateIdle)
	}
}

// innermost returns the connection that a server was given, without the layers of TLS
// and of objectConn around it.
func innermost(conn net.Conn) net.Conn {
	for {
		layer, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return conn
		}
		conn = layer.NetConn()
	}
}

// note counts a cause, and logs it at most once per interval: an attacker may produce
// any number.
func (cs *connections) note(cause string, remote net.Addr, err error) {
	cs.closed.WithLabelValues(cause).Inc()
	now := time.Now()
	cs.mu.Lock()
	last, before := cs.logged[cause]
	due := !before || now.Sub(last) >= logInterval
	if due {
		cs.logged[cause] = now
	}
	cs.mu.Unlock()
	switch {
	case !due:
	case err != nil:
		cs.log.Warn("an HTTP connection could not be accepted", "address", remote.String(), "error", err)
	default:
		cs.log.Warn("HTTP connections are closed because a bound is reached", "key", "http."+cause, "remote", remote.String())
	}
}

// addressOf returns the address of a peer, or its /64 network for IPv6, which is what
// one site gets, and reports whether it is exempt from the bound per address.
func (cs *connections) addressOf(c net.Conn) (key netip.Addr, exempt bool) {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, true
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(64) // no error: within 128
		return network.Addr(), cs.exempt.trust(addr)
	}
	return addr, cs.exempt.trust(addr)
}
