package engine

import (
	"errors"
	"net"
	"syscall"

	"signalbox/broker/embedded/poll"
	"signalbox/broker/mqtt/packet"
)

// member is what a loop waits for: a connection or a listening socket.
type member interface {
	// begin does what comes before the client is connected. It returns the connection of one that
	// is, else nil. It does not wait.
	begin(l *loop) (connected *Conn)
}

// acceptor is a listening socket whose connections a loop accepts.
type acceptor struct {
	socket *poll.Listener
	accept func() (removed func())
}

// begin accepts connections.
func (a *acceptor) begin(l *loop) *Conn {
	if removed := a.accept(); removed != nil {
		l.set.Remove(a.socket.Socket)
		removed()
	}
	return nil
}

// Watch calls accept whenever there is something to accept, on a goroutine that must not wait. If
// accept returns a function, the socket is not watched any more, and that function is called. Stop
// ends it, too; it is nil if the engine cannot watch the socket.
func (e *Engine) Watch(socket *poll.Listener, accept func() (removed func())) (stop func()) {
	l := e.loopForListener()
	if l == nil || l.set.Add(socket.Socket, &acceptor{socket, accept}) != nil {
		return nil
	}
	return func() { l.set.Remove(socket.Socket) }
}

// loopForListener returns a loop, nil if there is none or the engine is closing.
func (e *Engine) loopForListener() *loop {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil
	}
	e.startWorkers()
	return e.loops.next(e)
}

// parkNew leaves a new connection to a loop, which waits for its CONNECT. It returns false if that
// is not possible.
func (c *Conn) parkNew() bool {
	if c.socket.Polled == nil {
		return false
	}
	if c.loop = c.engine.loops.next(c.engine); c.loop == nil {
		return false
	}
	c.engine.silent.watch(c, c.engine.config.ConnectTimeout)
	return c.park()
}

// begin reads the CONNECT, unless the client is connected.
func (c *Conn) begin(l *loop) *Conn {
	if c.established.Load() {
		return c
	}
	size, err := c.readConnect()
	switch {
	case err != nil:
		l.end(c, err)
	case size > 0:
		l.connect(c, size)
	}
	return nil
}

// readConnect reads what is available, and returns the size of the CONNECT once it is complete.
func (c *Conn) readConnect() (size int, err error) {
	if c.isClosed() {
		return 0, net.ErrClosed
	}
	_, err = c.in.reader.readNow()
	if errors.Is(err, syscall.EAGAIN) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return c.sizeOfConnect()
}

// connect handles CONNECT. If something has to be waited for, or the client has sent more, a
// goroutine continues.
func (l *loop) connect(c *Conn, size int) {
	rest := c.connectAtOnce(size)
	if rest == nil && c.in.reader.n > 0 {
		rest = func() error { return nil }
	}
	if rest != nil {
		l.leave(c, rest)
		return
	}
	if c.touch() {
		l.touched = append(l.touched, c)
	}
}

// connectAtOnce handles CONNECT as far as nothing has to be waited for, and returns the rest, nil
// if the client is connected.
func (c *Conn) connectAtOnce(size int) (rest func() error) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked(p)
			rest = func() error { return errBroken }
		}
	}()
	assigned, err := c.receiveConnect(size)
	if err == nil {
		err = c.authenticate(c.engine.ctx, true)
	}
	if errors.Is(err, ErrWaits) {
		return func() error { return c.admit(assigned) }
	}
	if c.hello != nil {
		c.clearPassword()
	}
	if err == nil && c.isDiverted() {
		err = errRedirected
	}
	if err == nil {
		rest, err = c.openAtOnce(assigned)
	}
	if err != nil {
		return func() error { return c.reject(err) }
	}
	return rest
}

// openAtOnce assigns the client a new session if that needs no waiting, else it returns the rest.
func (c *Conn) openAtOnce(assigned string) (rest func() error, err error) {
	if err := c.checkResponse(assigned); err != nil {
		return nil, err
	}
	rest = func() error { return c.claim(assigned) }
	if c.mayKeep() || assigned == "" && c.engine.claims.Load() != nil {
		return rest, nil
	}
	s, err := c.engine.open(c)
	if s == nil || err != nil {
		return rest, err
	}
	return nil, c.establish(s, false, assigned)
}

// mayKeep reports whether CONNECT asks for something that has to be stored.
func (c *Conn) mayKeep() bool {
	h := c.hello
	return h.Will != nil || c.version >= 5 && h.SessionExpiry > 0 || c.version < 5 && !h.CleanStart
}

// end ends a connection after err, or leaves that to a goroutine if it may have to wait.
func (l *loop) end(c *Conn, err error) {
	c.flushAlone()
	if !c.endsAtOnce(err) || !c.closeIdle(reasonOf(err)) {
		l.leave(c, func() error { return err })
		return
	}
	l.set.CloseMember(c.socket.Polled)
	c.finish()
	c.engine.removeConn(c)
}

// manySubscriptions is how many subscriptions a loop removes at most.
const manySubscriptions = 16

// endsAtOnce reports whether a connection ends without waiting for the client or the store.
func (c *Conn) endsAtOnce(err error) bool {
	if _, broken := errors.AsType[*packet.Error](err); broken || c.withholdsAnswer(err) {
		return false
	}
	s := c.session
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.keeps() && !s.stored && s.will.record == nil && !s.will.stored && !s.out.shares && len(s.subscribed.options) <= manySubscriptions
}

// closeIdle closes the connection unless a goroutine writes to it. It reports whether it did. The
// descriptor is still open.
func (c *Conn) closeIdle(reason byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing {
		return false
	}
	c.finishReason(reason)
	c.ending = true
	if !c.closed {
		c.closed = true
		c.wakeReader()
		c.socket.Close() //nolint:errcheck // nothing left to do with it
	}
	return true
}
