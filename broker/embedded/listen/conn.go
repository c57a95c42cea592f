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

	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/poll"
)

// Conn is a client's connection, ready for MQTT: what is read and written is packets,
// whatever is beneath. Only one goroutine at a time may read; all other methods are safe
// for concurrent use.
//
// A Read that ran into its deadline may be repeated. A Write that did may have written part
// of a packet, so only Close may follow it.
type Conn struct {
	net.Conn  // the socket, or TLS or WebSocket above it
	socket    *socket
	polled    *polledConn // nil if the runtime polls the socket
	secured   *tls.Conn   // nil without TLS
	listener  *Listener
	remote    net.Addr // nil if it is that of the socket
	identity  string
	deadline  time.Time
	admission *limits.Admission // nil until there is a place
	counted   bool              // it counts among the listener's
	stopped   bool              // its listener was closed before it was handed over; guarded by Set.mu
	evicted   atomic.Bool       // a limit has ended it before it was closed
	closed    atomic.Bool
}

// Listener returns the listener that accepted the connection.
func (c *Conn) Listener() *Listener { return c.listener }

// RemoteAddr returns the client's address, as named by a trusted proxy if there is one.
func (c *Conn) RemoteAddr() net.Addr {
	if c.remote == nil {
		return c.socket.RemoteAddr()
	}
	return c.remote
}

// Addr returns the client's address without port, the zero Addr on a Unix socket.
func (c *Conn) Addr() netip.Addr {
	if c.remote == nil && c.polled != nil {
		return c.polled.peer.Addr()
	}
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// Raw returns the descriptor if bytes can be read and written on it as they are, nil with
// TLS or WebSocket. The deadlines of the connection apply to it too.
func (c *Conn) Raw() syscall.RawConn {
	if c.Conn != net.Conn(c.socket) {
		return nil
	}
	return c.Descriptor()
}

// Descriptor returns the descriptor, whatever is above it. It must not be read or written then.
func (c *Conn) Descriptor() syscall.RawConn {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return nil // never: it is a socket
	}
	return raw
}

// CloseDescriptor closes the descriptor of Raw but keeps the places of the connection, whose
// owner has duplicated the descriptor. Close must still be called.
func (c *Conn) CloseDescriptor() {
	c.socket.descriptor.Close() //nolint:errcheck // the duplicate has the connection
}

// Watched reports whether the connection was accepted by Watch: it is handed over on a goroutine
// that must not wait, and the runtime does not poll its socket.
func (c *Conn) Watched() bool { return c.polled != nil }

// Take returns the socket of a connection that was accepted by Watch. The caller closes it, and
// still calls Close.
func (c *Conn) Take() *poll.Conn {
	c.polled.taken.Store(true)
	return c.polled.conn
}

// Wait waits until there is something to read, so that a silent client needs no buffer. EOF
// and errors are something to read as well; an error here is one that Read would have
// returned. Wait counts as reading.
func (c *Conn) Wait() error {
	return c.Conn.(waiter).Wait() //nolint:forcetypeassert // all that we put there are
}

// Encrypted reports whether the connection has TLS.
func (c *Conn) Encrypted() bool { return c.secured != nil }

// TLS returns the state of the encryption; ok is false without TLS.
func (c *Conn) TLS() (state tls.ConnectionState, ok bool) {
	if c.secured == nil {
		return tls.ConnectionState{}, false
	}
	return c.secured.ConnectionState(), true
}

// Certificate returns the client's certificate in PEM, nil if it presented none.
func (c *Conn) Certificate() []byte {
	state, _ := c.TLS()
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw})
}

// Identity returns the username that the client's certificate stands for, "" if none.
func (c *Conn) Identity() string { return c.identity }

// WebSocket reports whether the client speaks MQTT over WebSocket.
func (c *Conn) WebSocket() bool { return c.listener.config.webSocket() }

// ConnectBy returns the deadline for the client's CONNECT. It is set as the read deadline when the
// connection is handed over, unless it was accepted by Watch; the new owner removes it.
func (c *Conn) ConnectBy() time.Time { return c.deadline }

// ConnectReceived records that the CONNECT has arrived: the connection is no longer a
// candidate for eviction.
func (c *Conn) ConnectReceived() { c.admission.ConnectReceived() }

// Reserve sets how many bytes are held for a client that has not logged in, 0 once it has.
// If a limit refuses them the error is that limit, and the connection must be closed.
func (c *Conn) Reserve(bytes int) error {
	err := c.admission.Reserve(bytes)
	if limit, ok := errors.AsType[limits.Refusal](err); ok {
		c.listener.note(c.RemoteAddr(), &loss{string(limit), limit})
	}
	return err
}

// AwaitEnd waits, without reading, until the client has ended the connection, and returns
// nil. It returns an error when the read deadline has passed. AwaitEnd counts as reading.
func (c *Conn) AwaitEnd() error { return c.socket.awaitEnd() }

// evict ends the connection in favour of a new one, whatever its owner is doing with it. It
// does not block.
func (c *Conn) evict(limit limits.Refusal) {
	c.evicted.Store(true)
	c.socket.shutdown()
	c.listener.note(c.socket.RemoteAddr(), &loss{string(limit), limit})
}

// Close closes the connection and releases its places. It sends the close messages of TLS
// and WebSocket but does not wait for the peer. Further calls have no effect.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	if c.polled != nil {
		defer c.release()
		return c.polled.Close()
	}
	c.socket.stopWaiting()
	err := c.Conn.Close()
	if closed := c.socket.Close(); err == nil && !errors.Is(closed, net.ErrClosed) {
		err = closed
	}
	c.release()
	return err
}

// release releases the connection's places.
func (c *Conn) release() {
	if c.admission != nil {
		c.admission.Release()
	}
	if c.counted {
		c.listener.open.Add(-1)
	}
}
