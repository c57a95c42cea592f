package engine

import (
	"errors"
	"net"
	"syscall"
	"time"

	"signalbox/broker/embedded/poll"
)

// errParked is the outcome of reading a connection that a loop now reads.
var errParked = errors.New("the connection is parked")

// park leaves the connection to a loop. It returns false if that is not possible; otherwise
// the calling goroutine must not use the connection any more.
func (c *Conn) park() bool {
	if c.lingers() {
		return c.parkShared()
	}
	if c.socket.Polled == nil && !c.detach() {
		return false
	}
	c.stopWaiting()
	c.parkedAt.Store(c.engine.now())
	if err := c.loop.set.Add(c.socket.Polled, c); err != nil {
		c.parkedAt.Store(0)
		return false
	}
	return true
}

// stopWaiting releases the descriptor with which can be waited, unless a goroutine writes with it.
func (c *Conn) stopWaiting() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.writing {
		c.socket.Polled.StopWaiting()
	}
}

// leave starts a goroutine for a connection.
func (l *loop) leave(c *Conn, begin func() error) {
	l.set.Remove(c.socket.Polled)
	c.parkedAt.Store(0)
	go c.attend(begin)
}

// lingerTime is how long a client with TLS or WebSocket must be silent before its connection is
// parked: each message of a parked one starts a goroutine.
const lingerTime = 2 * time.Second

// lingers reports whether the connection is parked only after lingerTime.
func (c *Conn) lingers() bool { return c.socket.Descriptor != nil }

// patience returns how long reading may wait before the silence of the client is looked at, 0 for
// ever.
func (c *Conn) patience() time.Duration {
	if c.lingers() && (c.in.idle == 0 || c.in.idle > lingerTime) {
		return lingerTime
	}
	return c.in.idle
}

// parkShared is park for a connection with TLS or WebSocket. The runtime still polls it, and its
// descriptor is only closed by finish.
func (c *Conn) parkShared() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.share() {
		return false
	}
	c.parkedAt.Store(c.active.Load())
	if c.loop.set.Add(c.socket.shared, c) != nil {
		c.parkedAt.Store(0)
		return false
	}
	return true
}

// share prepares the connection for being parked, once. mu is held.
func (c *Conn) share() bool {
	if c.socket.shared != nil {
		return true
	}
	l := c.engine.loops.next(c.engine)
	if l == nil {
		return false
	}
	shared, err := poll.Share(c.socket.Descriptor)
	if err != nil {
		return false
	}
	c.socket.shared, c.loop = shared, l
	c.engine.silent.watch(c, c.in.idle)
	return true
}

// leaveShared is leave for a connection with TLS or WebSocket. Reading it may wait for the client,
// which must take the answers of these protocols. One that was closed meanwhile is not read.
func (l *loop) leaveShared(c *Conn) {
	c.mu.Lock()
	l.set.Remove(c.socket.shared)
	c.parkedAt.Store(0)
	closed := c.closed
	c.mu.Unlock()
	go c.attend(func() error {
		if closed {
			return net.ErrClosed
		}
		c.watch(lingerTime)
		return nil
	})
}

// detach takes the socket from the runtime's poller, unless a goroutine is writing to it.
func (c *Conn) detach() bool {
	if c.socket.CloseDescriptor == nil {
		return false
	}
	l := c.engine.loops.next(c.engine)
	if l == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing || c.closed {
		return false
	}
	polled, err := poll.Take(c.socket.Raw)
	if err != nil {
		return false
	}
	c.socket.CloseDescriptor()
	c.socket.Polled = polled
	c.loop = l
	c.engine.silent.watch(c, c.in.idle)
	return true
}

// readAgain is read for a connection without the runtime's poller: if nothing is available, the
// connection is parked.
func (c *Conn) readAgain() error {
	n, err := c.in.reader.readNow()
	switch {
	case n > 0:
		return nil
	case !errors.Is(err, syscall.EAGAIN):
		return err
	case c.park():
		return errParked
	}
	return c.readWaiting()
}

// readWaiting waits for bytes on this goroutine.
func (c *Conn) readWaiting() error {
	if c.in.idle > 0 {
		c.watch(c.in.idle)
	}
	return c.in.reader.readPolled()
}
