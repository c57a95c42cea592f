package listen

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// descriptor is a TCP or Unix connection.
type descriptor interface {
	net.Conn
	syscall.Conn
	CloseRead() error
	CloseWrite() error
}

// waiter is a connection that can wait for data without a buffer.
type waiter interface {
	// Wait waits until there is something to read, be it EOF or an error.
	Wait() error
}

// socket is an accepted connection beneath all other layers. It counts bytes.
type socket struct {
	descriptor
	counters *Counters
	closing  atomic.Bool // no write waits for the peer any more
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

// stopWaiting makes all writes non-blocking, even one under way: the layers above can send
// their close messages, which are lost if the peer does not read.
func (s *socket) stopWaiting() {
	s.closing.Store(true)
	s.descriptor.SetWriteDeadline(time.Unix(1, 0)) //nolint:errcheck // it is being closed
}

// shutdown ends reads and writes of the connection; its owner then closes it. It does not
// block.
func (s *socket) shutdown() {
	s.descriptor.CloseRead()  //nolint:errcheck // it may have ended by itself
	s.descriptor.CloseWrite() //nolint:errcheck // the same
}

// encrypted is a TLS connection that can wait for data: it reads one byte ahead. Only one
// goroutine at a time may read.
type encrypted struct {
	*tls.Conn
	ahead [1]byte
	have  bool // ahead is filled
}

// Read returns the byte that was read ahead, or else reads.
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
