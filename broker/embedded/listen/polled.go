package listen

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/broker/embedded/poll"
)

// acceptAtOnce is how many connections are accepted before those that have something to read get
// their turn.
const acceptAtOnce = 64

// Watch calls accept whenever there is something to accept, on a goroutine that must not wait. If
// accept returns a function, the socket is not watched any more, and that function is called. Stop
// ends it, too; it is nil if watching is not possible.
type Watch func(socket *poll.Listener, accept func() (removed func())) (stop func())

// polled is the socket of a listener whose connections the runtime does not poll.
type polled struct {
	*poll.Listener
	stop func() // of Watch
}

// poll leaves it to Watch to accept the connections of a plain listener. It reports whether that is
// possible. The caller holds opening.
func (s *Set) poll(l *Listener, b *binding) bool {
	tcp, ok := b.Listener.(*net.TCPListener)
	if !ok || l.options.Watch == nil || l.config.Protocol != MQTT || l.config.ProxyProtocol {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	socket, err := poll.Listen(raw)
	if err != nil {
		l.options.Log.Debug("each connection of a listener costs more, as its options cannot be inherited", "listener", l.config.Address, "error", err)
		return false
	}
	p := &polled{Listener: socket}
	if p.stop = l.options.Watch(socket, s.acceptFor(l, p)); p.stop == nil {
		socket.Socket.Close()
		return false
	}
	b.polled = p
	tcp.Close() //nolint:errcheck // the duplicate listens
	return true
}

// acceptFor returns the function that accepts the present connections of a listener. It does not
// wait.
func (s *Set) acceptFor(l *Listener, p *polled) func() (removed func()) {
	return func() (removed func()) {
		for range acceptAtOnce {
			conn, peer, err := p.Accept()
			switch {
			case err == syscall.EAGAIN:
				return nil
			case errors.Is(err, net.ErrClosed):
				return func() {}
			case err != nil:
				l.noteAccept(err)
				return func() { s.watchLater(l, p) }
			}
			l.options.Counters.Accepted.Add(1)
			s.accepted(l.newPolled(conn, peer))
		}
		return nil
	}
}

// watchLater continues to accept after a pause, unless the listener is closed by then.
func (s *Set) watchLater(l *Listener, p *polled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.tasks.Go(func() {
		for pause(s.stop, acceptPause) && !s.watchAgain(l, p) {
		}
	})
}

// watchAgain continues to accept. It reports whether it does, or the listener is closed.
func (s *Set) watchAgain(l *Listener, p *polled) bool {
	s.opening.Lock()
	defer s.opening.Unlock()
	if b := l.bound.Load(); b == nil || b.polled != p {
		return true
	}
	if p.stop = l.options.Watch(p.Listener, s.acceptFor(l, p)); p.stop == nil {
		l.noteAccept(errNotWatched)
	}
	return p.stop != nil
}

// errNotWatched is why nothing is accepted while a socket cannot be watched.
var errNotWatched = errors.New("the system cannot wait for another socket")

// close stops accepting, and closes the socket.
func (p *polled) close() {
	if p.stop != nil {
		p.stop()
	}
	p.Socket.Close()
}

// newPolled returns a connection that the runtime does not poll.
func (l *Listener) newPolled(conn *poll.Conn, peer netip.AddrPort) *Conn {
	c := &struct {
		Conn
		below  socket
		polled polledConn
	}{polled: polledConn{conn: conn, peer: peer}}
	c.below.descriptor, c.below.counters = &c.polled, l.options.Counters
	c.Conn = Conn{Conn: &c.below, socket: &c.below, polled: &c.polled, listener: l, deadline: l.options.Now().Add(l.options.Timeout)}
	return &c.Conn
}

// polledConn is a connection that the runtime does not poll, as one with which an owner can wait.
type polledConn struct {
	conn  *poll.Conn
	peer  netip.AddrPort
	taken atomic.Bool // its owner closes the descriptor
}

// Read waits for bytes.
func (p *polledConn) Read(b []byte) (int, error) {
	f, err := p.conn.Waiting()
	if err != nil {
		return 0, err
	}
	return f.Read(b)
}

// Write waits until everything is written.
func (p *polledConn) Write(b []byte) (int, error) {
	f, err := p.conn.Waiting()
	if err != nil {
		return 0, err
	}
	return f.Write(b)
}

// Close closes the connection, unless its owner does.
func (p *polledConn) Close() error {
	if !p.taken.Load() {
		p.conn.Close()
	}
	return nil
}

// LocalAddr returns nil: the listener knows it.
func (*polledConn) LocalAddr() net.Addr { return nil }

// RemoteAddr returns the address of the peer.
func (p *polledConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(p.peer) }

// SetDeadline sets the deadline of reads and writes that wait.
func (p *polledConn) SetDeadline(t time.Time) error {
	return p.waiting(func(f *os.File) error { return f.SetDeadline(t) })
}

// SetReadDeadline sets the deadline of reads that wait.
func (p *polledConn) SetReadDeadline(t time.Time) error { return p.conn.SetReadDeadline(t) }

// SetWriteDeadline sets the deadline of writes that wait.
func (p *polledConn) SetWriteDeadline(t time.Time) error {
	return p.waiting(func(f *os.File) error { return f.SetWriteDeadline(t) })
}

func (p *polledConn) waiting(do func(*os.File) error) error {
	f, err := p.conn.Waiting()
	if err != nil {
		return err
	}
	return do(f)
}

// SyscallConn returns a descriptor with which can be waited.
func (p *polledConn) SyscallConn() (syscall.RawConn, error) {
	f, err := p.conn.Waiting()
	if err != nil {
		return nil, err
	}
	return f.SyscallConn()
}

// CloseRead ends the connection in both directions.
func (p *polledConn) CloseRead() error {
	p.conn.Shutdown()
	return nil
}

// CloseWrite does nothing: CloseRead has ended both directions.
func (*polledConn) CloseWrite() error { return nil }
