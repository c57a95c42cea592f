//go:build unix

// Package poll waits for many connections at once, without a goroutine or a buffer for each.
package poll

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a connection that the runtime does not poll. Read and Write do not wait. All methods
// are safe for concurrent use.
type Conn struct {
	mu     sync.RWMutex // guards what follows; held while the descriptor is used
	fd     int
	shared bool // the descriptor is the original's
	closed bool
	file   *os.File // a second descriptor, which the runtime polls; nil until something must wait
}

// Take returns a Conn of a descriptor that does not block. The caller closes the original, which
// ends the runtime's polling of it.
func Take(original syscall.RawConn) (*Conn, error) {
	var fd int
	var err error
	if e := original.Control(func(from uintptr) { fd, err = duplicate(int(from)) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return &Conn{fd: fd}, nil
}

// Share returns a Conn to be waited for only: it has the descriptor of the original, which the
// caller must not close while the Conn is in a Set.
func Share(original syscall.RawConn) (*Conn, error) {
	c := &Conn{shared: true}
	return c, original.Control(func(fd uintptr) { c.fd = int(fd) })
}

func duplicate(fd int) (int, error) {
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return fd, os.NewSyscallError("dup", err)
}

// Read reads what is available. It returns EAGAIN if nothing is, and io.EOF at the end.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	return ReadDescriptor(uintptr(c.fd), p)
}

// Write writes as much as the send buffer accepts, or less. It returns EAGAIN if that is nothing.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	return WriteDescriptor(uintptr(c.fd), p)
}

// Waiting returns a file by which the connection can be read and written with waiting and
// deadlines. The Conn closes it.
func (c *Conn) Waiting() (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.file == nil {
		fd, err := duplicate(c.fd)
		if err != nil {
			return nil, err
		}
		c.file = os.NewFile(uintptr(fd), "socket")
	}
	return c.file, nil
}

// StopWaiting releases what Waiting has returned, which must not be used any more.
func (c *Conn) StopWaiting() {
	c.mu.RLock()
	has := c.file != nil
	c.mu.RUnlock()
	if !has {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.file != nil {
		c.file.Close() //nolint:errcheck // the connection has another descriptor
		c.file = nil
	}
}

// WaitingLast is Waiting for a connection that will not be in a Set any more: it needs no second descriptor.
func (c *Conn) WaitingLast() (*os.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, net.ErrClosed
	}
	if c.file == nil && !c.shared {
		c.file, c.shared = os.NewFile(uintptr(c.fd), "socket"), true // release closes the file
	}
	return c.file, nil
}

// SetReadDeadline sets the deadline of reads of Waiting.
func (c *Conn) SetReadDeadline(t time.Time) error {
	f, err := c.Waiting()
	if err != nil {
		return err
	}
	return f.SetReadDeadline(t)
}

// Shutdown ends the connection in both directions: whatever waits for it ends. It does not
// wait, and does not release the descriptor.
func (c *Conn) Shutdown() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed {
		unix.Shutdown(c.fd, unix.SHUT_RDWR) //nolint:errcheck // the peer may have ended it
	}
}

// ShutdownRead ends the connection in the direction to this side, so that a Set returns it.
func (c *Conn) ShutdownRead() {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if !c.closed {
		unix.Shutdown(c.fd, unix.SHUT_RD) //nolint:errcheck // the peer may have ended it
	}
}

// Close releases the descriptors, unless they are the original's. The connection must not be in a Set.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.release()
	}
}

// release releases the descriptors. mu is held.
func (c *Conn) release() {
	c.closed = true
	if !c.shared {
		closeDescriptor(c.fd)
	}
	if c.file != nil {
		c.file.Close() //nolint:errcheck // the same
	}
}
