package listen

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// descriptor is a TCP or unix connection.
type descriptor interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// waiter is a connection that can be waited for without a buffer.
type waiter interface {
	// Wait waits until there is something to read, be it the end or an error.
	Wait() error
}

// socket is an accepted connection beneath everything else. It counts bytes.
type socket struct {
	descriptor
	counters *Counters
	closing  atomic.Bool // nothing waits for the peer any more
}

// Read counts what it reads.
func (s *socket) Read(p []byte) (int, error) {
	n, err := s.descriptor.Read(p)
	s.counters.Received.Add(int64(n))
	return n, err
}

// Write counts what it writes.
func (s *socket) Write(p []byte) (int, error) {
	write := s.descriptor.Write
	if s.closing.Load() {
		write = s.writeAtOnce
	}
	n, err := write(p)
	s.counters.Sent.Add(int64(n))
	return n, err
}

// hurry lets no write wait for the peer from now on, not even one under way: the
// layers above can take their leave, and do so in vain where the peer does not
// read.
func (s *socket) hurry() {
	s.closing.Store(true)
	s.descriptor.SetWriteDeadline(time.Unix(1, 0)) //nolint:errcheck // it is being closed
}

// cut ends the connection for whoever reads or writes it, who then closes it. It
// does not wait.
func (s *socket) cut() {
	s.descriptor.CloseRead()  //nolint:errcheck // it may have ended by itself
	s.descriptor.CloseWrite() //nolint:errcheck // the same
}

// encrypted is a TLS connection that can be waited for: one byte is read ahead.
// One goroutine at a time may read.
type encrypted struct {
	*tls.Conn
	ahead [1]byte
	have  bool // ahead is filled
}

// Read reads what was read ahead, or else what there is.
func (e *encrypted) Read(p []byte) (int, error) {
	if !e.have || len(p) == 0 {
		return e.Conn.Read(p)
	}
	p[0], e.have = e.ahead[0], false
	return 1, nil
}

// Wait waits until there is something to read, without a buffer for it.
func (e *encrypted) Wait() error {
	if e.have {
		return nil
	}
	n, err := e.Conn.Read(e.ahead[:])
	e.have = n > 0
	return err
}
