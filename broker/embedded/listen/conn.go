package listen

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/broker/embedded/guard"
)

// Conn is a client's connection, ready for MQTT: what is read and written is
// packets, whatever is beneath. One goroutine at a time may read; everything
// else may be called from anywhere at any time.
//
// A Read that ran into its deadline may be repeated. A Write that did may have
// left part of a packet behind, so nothing may follow it but Close.
type Conn struct {
	net.Conn // the socket, or TLS or WebSocket above it
	socket   *socket
	secured  *tls.Conn // nil without TLS
	listener *Listener
	remote   net.Addr
	identity string
	until    time.Time
	ticket   *guard.Ticket // nil until there is a place
	slot     bool          // it counts among the listener's
	stopped  bool          // its listener was closed before it was handed over; guarded by Set.mu
	gaveWay  atomic.Bool   // a limit has ended it before it was closed
	closed   atomic.Bool
}

// Listener is where the connection came in.
func (c *Conn) Listener() *Listener { return c.listener }

// RemoteAddr is the client's address, as a trusted proxy told where there is
// one.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Addr is the client's address without port, the zero Addr on a unix socket.
func (c *Conn) Addr() netip.Addr { return addrOf(c.remote) }

func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// Raw is the descriptor, where bytes can be read and written on it as they are:
// nil with TLS or WebSocket. The deadlines of the connection hold for it too.
func (c *Conn) Raw() syscall.RawConn {
	if c.Conn != net.Conn(c.socket) {
		return nil
	}
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return nil // never: it is a socket
	}
	return raw
}

// Wait waits until there is something to read, so that no buffer is needed for
// a client that is silent. The end and errors are something to read as well; an
// error here is one that Read would have given. It counts as reading.
func (c *Conn) Wait() error {
	return c.Conn.(waiter).Wait() //nolint:forcetypeassert // all that we put there are
}

// TLS tells what is known of the encryption; not ok without.
func (c *Conn) TLS() (state tls.ConnectionState, ok bool) {
	if c.secured == nil {
		return tls.ConnectionState{}, false
	}
	return c.secured.ConnectionState(), true
}

// Certificate is the client's certificate in PEM, nil where it has shown none.
func (c *Conn) Certificate() []byte {
	state, _ := c.TLS()
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw})
}

// Identity is the username that the client's certificate stands for, "" where
// it does not stand for one.
func (c *Conn) Identity() string { return c.identity }

// WebSocket tells whether the client speaks MQTT over WebSocket.
func (c *Conn) WebSocket() bool { return c.listener.config.webSocket() }

// ConnectBy is when the client's CONNECT must be here. It is the read deadline
// with which the connection is handed over, and for its new owner to lift.
func (c *Conn) ConnectBy() time.Time { return c.until }

// Greeted says that the CONNECT is here: the connection need not give way to
// newcomers any longer.
func (c *Conn) Greeted() { c.ticket.Greeted() }

// Reserve sets how many bytes are held for a client that has not logged in, 0
// once it has. Where there is no room its error says so, and the connection must
// be closed.
func (c *Conn) Reserve(bytes int) error {
	err := c.ticket.Reserve(bytes)
	if limit, ok := errors.AsType[guard.Refusal](err); ok {
		c.listener.note(c.remote, &loss{string(limit), limit})
	}
	return err
}

// AwaitEnd waits, without reading, until the client has ended the connection; then
// it returns nil. A read deadline ends the waiting with an error. It counts as
// reading.
func (c *Conn) AwaitEnd() error { return c.socket.awaitEnd() }

// giveWay ends the connection for the sake of a newcomer, whatever its owner is
// doing with it. It does not wait.
func (c *Conn) giveWay(limit guard.Refusal) {
	c.gaveWay.Store(true)
	c.socket.cut()
	c.listener.note(c.socket.RemoteAddr(), &loss{string(limit), limit})
}

// Close ends the connection and gives its place back. It takes leave of the
// peer as TLS and WebSocket have it, and does not wait for it. More than once is
// harmless.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	c.socket.hurry()
	err := c.Conn.Close()
	if closed := c.socket.Close(); err == nil && !errors.Is(closed, net.ErrClosed) {
		err = closed
	}
	c.release()
	return err
}

// release gives the connection's places back.
func (c *Conn) release() {
	if c.ticket != nil {
		c.ticket.Leave()
	}
	if c.slot {
		c.listener.open.Add(-1)
	}
}
