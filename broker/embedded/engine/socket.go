package engine

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"signalbox/broker/embedded/poll"
	wire "signalbox/broker/mqtt/packet"
)

// Socket is an accepted connection, ready for MQTT.
type Socket struct {
	net.Conn
	// Raw is the descriptor of a plain connection, nil with TLS or WebSocket. With it the
	// engine needs no buffer for a silent connection, and can write without waiting for a
	// client that does not read.
	Raw  syscall.RawConn
	Wait func() error // waits for bytes without a buffer; nil with Raw
	// CloseDescriptor closes the descriptor of Raw and nothing else of the connection, when the
	// engine has duplicated it. nil if the connection must have a goroutine.
	CloseDescriptor func()
	// Polled is a plain connection that the runtime does not poll: one that was accepted like
	// that, or the duplicate of Raw. The engine closes it. nil for others.
	Polled *poll.Conn
	// Descriptor is what is beneath TLS or WebSocket, so that a silent connection needs no
	// goroutine. nil for a plain connection, or if the connection must have a goroutine.
	Descriptor syscall.RawConn
	shared     *poll.Conn // with Descriptor; nil before the connection was parked
	OnConnect  func()     // called after CONNECT was received; may be nil
	// Reserve is called with the number of buffered bytes of a client that has not logged
	// in, and with 0 once it has. An error ends the connection. nil for no bound.
	Reserve func(bytes int) error
	// AwaitEnd waits, without reading, until the peer has closed the connection. A read
	// deadline ends the waiting with an error. nil if that cannot be detected.
	AwaitEnd  func() error
	IP        netip.Addr // of the peer; the zero Addr on a Unix socket
	Address   string     // of the peer, for display
	Protocol  string     // MQTT or MQTT-WS, for display
	Identity  string     // username of the client certificate, "" for none
	Listener  Listener
	TLS       func() (tls.ConnectionState, bool) // nil without TLS
	AdminOnly bool
	Node      int // number of the cluster's node whose platform is the peer; 0 for a client
}

// Listener is the listener that accepted a connection.
type Listener struct {
	Port        int
	BindAddress string
}

// close closes a connection that was never served.
func (s *Socket) close() {
	s.Close() //nolint:errcheck // nothing left to do with it
	if s.Polled != nil {
		s.Polled.Close()
	}
}

// readSize is how much is read from a connection at once.
const readSize = 32 << 10

// connectReadSize is the same for a client that has not logged in. An ordinary CONNECT fits.
const connectReadSize = 2 << 10

var (
	readBuffers    = newBuffers(readSize)
	connectBuffers = newBuffers(connectReadSize)
)

func newBuffers(size int) *sync.Pool {
	return &sync.Pool{New: func() any { b := make([]byte, size); return &b }}
}

// reader reads a connection's packets. With Raw or Wait it has a buffer only while there are
// unhandled bytes.
type reader struct {
	socket *Socket
	pooled *[]byte    // the buffer, if it is from a pool
	pool   *sync.Pool // of pooled
	buf    []byte     // begins with the unhandled bytes
	n      int        // number of unhandled bytes

	received *atomic.Int64 // counts bytes read by Raw
	loggedIn bool          // the buffer is no longer reserved
}

// read waits for more bytes and adds them to the buffer.
func (r *reader) read() error {
	if r.socket.Polled != nil {
		return r.readPolled()
	}
	if r.socket.Raw == nil {
		if r.n == 0 && r.socket.Wait != nil {
			r.release()
			if err := r.socket.Wait(); err != nil {
				return err
			}
		}
		if err := r.ensureSpace(); err != nil {
			return err
		}
		n, err := r.socket.Read(r.buf[r.n:])
		r.n += n
		if n > 0 {
			return nil
		}
		return err
	}
	return r.readRaw()
}

func (r *reader) readRaw() error {
	var n int
	var err error
	ready := func(fd uintptr) bool {
		if err = r.ensureSpace(); err != nil {
			return true
		}
		n, err = poll.ReadDescriptor(fd, r.buf[r.n:])
		if err == syscall.EAGAIN {
			r.release()
			return false
		}
		return true
	}
	if e := r.socket.Raw.Read(ready); e != nil {
		return e
	}
	if err != nil {
		return err
	}
	r.n += n
	r.received.Add(int64(n))
	return nil
}

// readPolled waits for bytes of a connection that the runtime does not poll.
func (r *reader) readPolled() error {
	f, err := r.socket.Polled.Waiting()
	if err != nil {
		return err
	}
	if err := r.ensureSpace(); err != nil {
		return err
	}
	n, err := f.Read(r.buf[r.n:])
	r.n += n
	r.received.Add(int64(n))
	if n > 0 {
		return nil
	}
	return err
}

// readNow reads what is available of a parked connection.
func (r *reader) readNow() (int, error) {
	if err := r.ensureSpace(); err != nil {
		return 0, err
	}
	n, err := r.socket.Polled.Read(r.buf[r.n:])
	r.n += n
	r.received.Add(int64(n))
	if err != nil {
		r.release()
	}
	return n, err
}

// ensureSpace ensures that the buffer has free space.
func (r *reader) ensureSpace() error {
	if r.buf == nil {
		r.pool = readBuffers
		if !r.loggedIn {
			r.pool = connectBuffers
		}
		r.pooled = r.pool.Get().(*[]byte) //nolint:forcetypeassert // nothing else is in it
		r.buf = *r.pooled
	}
	if r.n < len(r.buf) {
		return nil
	}
	size, err := r.nextSize()
	if err != nil {
		return err
	}
	r.grow(size)
	return nil
}

// nextSize returns the size of the next larger buffer. It doubles with what has arrived, not by
// the length that a packet claims; for a CONNECT that length is the limit.
func (r *reader) nextSize() (int, error) {
	size := 2 * len(r.buf)
	if r.loggedIn {
		return size, nil
	}
	if packet, err := wire.Size(r.buf[:r.n]); err == nil && packet > len(r.buf) {
		size = min(size, packet)
	}
	return size, r.socket.reserve(size)
}

// reserve calls Reserve, if there is one.
func (s *Socket) reserve(bytes int) error {
	if s.Reserve == nil {
		return nil
	}
	return s.Reserve(bytes)
}

// release releases an empty buffer.
func (r *reader) release() {
	if r.n > 0 || r.buf == nil {
		return
	}
	if r.pooled != nil {
		r.pool.Put(r.pooled)
	}
	r.pooled, r.buf = nil, nil
}

// grow makes the buffer larger.
func (r *reader) grow(size int) {
	bigger := make([]byte, size)
	copy(bigger, r.buf[:r.n])
	if r.pooled != nil {
		r.pool.Put(r.pooled)
		r.pooled = nil
	}
	r.buf = bigger
}

// take removes handled bytes.
func (r *reader) take(n int) {
	copy(r.buf, r.buf[n:r.n])
	r.n -= n
	if r.n == 0 && len(r.buf) > readSize {
		r.pooled, r.buf = nil, nil
	}
	r.release()
}

// write writes as much as possible without waiting, and returns what is left: everything if the
// connection is not plain.
func (s *Socket) write(segments [][]byte) (left [][]byte, written int, err error) {
	switch {
	case s.Polled != nil:
		return writeSegments(s.Polled, segments)
	case s.Raw != nil:
		return writeRaw(s.Raw, segments)
	}
	return segments, 0, nil
}

func writeRaw(raw syscall.RawConn, segments [][]byte) (left [][]byte, written int, err error) {
	e := raw.Write(func(fd uintptr) bool {
		left, written, err = writeSegments(descriptor(fd), segments)
		return true
	})
	if e != nil {
		return segments, written, e
	}
	return left, written, err
}

// descriptor is one that does not wait.
type descriptor uintptr

// Write writes as much as the send buffer accepts.
func (d descriptor) Write(p []byte) (int, error) { return poll.WriteDescriptor(uintptr(d), p) }

// writeSegments writes segments until one is not written whole.
func writeSegments(to io.Writer, segments [][]byte) (left [][]byte, written int, err error) {
	for len(segments) > 0 && err == nil {
		var n int
		n, err = to.Write(segments[0])
		written += n
		if segments[0] = segments[0][n:]; len(segments[0]) == 0 {
			segments = segments[1:]
		}
	}
	if err == syscall.EAGAIN {
		err = nil
	}
	return segments, written, err
}

// deadlineConn is what can be read and written with waiting.
type deadlineConn interface {
	Read([]byte) (int, error)
	Write([]byte) (int, error)
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// waiting returns the connection for reads and writes that wait.
func (s *Socket) waiting() (deadlineConn, error) {
	if s.Polled == nil {
		return s.Conn, nil
	}
	f, err := s.Polled.Waiting()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// waitingLast is waiting for a connection that is read until its end.
func (s *Socket) waitingLast() (deadlineConn, error) {
	if s.Polled == nil {
		return s.Conn, nil
	}
	f, err := s.Polled.WaitingLast()
	if err != nil {
		return nil, err
	}
	return f, nil
}

// setReadDeadline sets the deadline of reads that wait.
func (s *Socket) setReadDeadline(t time.Time) error {
	if s.Polled != nil {
		return s.Polled.SetReadDeadline(t)
	}
	return s.SetReadDeadline(t)
}

// writePart is how much is written with one deadline without Raw, where only a completed
// write shows that the peer reads.
const writePart = 64 << 10

// writeWaiting writes everything. It fails if the peer makes no progress within patience: with
// Raw any byte is progress, else a part of writePart bytes.
func (s *Socket) writeWaiting(segments [][]byte, patience time.Duration) (written int, err error) {
	to, err := s.waiting()
	if err != nil {
		return 0, err
	}
	for _, segment := range segments {
		for part := range slices.Chunk(segment, writePart) {
			n, err := s.writeWhole(to, part, patience)
			if written += n; err != nil {
				return written, err
			}
		}
	}
	return written, to.SetWriteDeadline(time.Time{}) // it would apply to Raw, too
}

// isPlain reports whether bytes are written as they are.
func (s *Socket) isPlain() bool { return s.Raw != nil || s.Polled != nil }

// writeWhole writes a part. The system may report a socket as writable only when much of its
// send buffer is free, though the peer is reading. So with Raw it tries once more after half
// the time.
func (s *Socket) writeWhole(to deadlineConn, part []byte, patience time.Duration) (written int, err error) {
	tries := 1
	if s.isPlain() {
		tries, patience = 2, patience/2
	}
	for left := tries; written < len(part); {
		if err := to.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return written, err
		}
		n, err := to.Write(part[written:])
		written += n
		if left--; n > 0 && s.isPlain() {
			left = tries
		}
		if err != nil && (left == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return written, err
		}
	}
	return written, nil
}
