package engine

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/mqtt/packet"
)

// errClosing refuses to suspend or resume an engine that is closing.
var errClosing = errors.New("the broker is closing")

// Suspend leaves the clients to another server. From now on only clients of AdminOnly sockets
// are accepted. The connections of all others are ended with a reason code, after what can
// still be sent to them. All sessions, Wills and retained messages are discarded in memory,
// without changes of the store, which may have another server's state already. Clients of
// AdminOnly sockets stay, with sessions that end with their connections.
//
// Suspend waits until all that is done. If its context ends first, it returns an error and
// continues in the background. Its caller ensures that the store reports the outcome of what
// was submitted. A Resume in progress is cancelled. An engine that is suspended stays so.
func (e *Engine) Suspend(ctx context.Context, reason byte) error {
	defer e.interrupt()()
	if err := e.lockTransition(ctx); err != nil {
		return err
	}
	old, out, ok := e.disconnectAll()
	if !ok {
		e.unlockTransition()
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer e.tasks.Done()
		defer close(done)
		defer e.unlockTransition()
		e.disconnectAndDiscard(old, out, reason)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the clients' connections to end: %w", context.Cause(ctx))
	}
}

// Refer sets the server reference, which names other servers to clients of MQTT 5 that are to use one
// (0x9C): host:port, separated by spaces; "" for none.
func (e *Engine) Refer(serverReference string) { e.reference.Store(&serverReference) }

// Redirect ends the connections of all clients but those of AdminOnly sockets, because other
// servers have their sessions or will have them (0x9C). The sessions stay, and new
// connections are accepted unless Divert refuses them. It waits for the end of the connections, at
// most until the context ends.
func (e *Engine) Redirect(ctx context.Context) {
	out := e.redirected()
	for _, c := range out {
		c.end(packet.ReasonUseAnotherServer, true)
	}
	for _, c := range out {
		select {
		case <-c.done:
		case <-ctx.Done():
			return
		}
	}
}

// Resume loads what is stored, and accepts all clients. It does nothing if the engine is not
// suspended. Clients of AdminOnly sockets stay connected, unless a stored session has their
// client id. Resume is cancelled by its context, by Suspend and by Close, and leaves the
// engine suspended then. Its caller ensures that the store responds.
func (e *Engine) Resume(ctx context.Context) error {
	ctx, done, err := e.beginResume(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := e.lockTransition(ctx); err != nil {
		return err
	}
	defer e.unlockTransition()
	if !e.generation.Load().volatile {
		return nil
	}
	stored, err := e.load(ctx)
	if err != nil {
		return fmt.Errorf("read the stored sessions and messages: %w", err)
	}
	e.restore(stored)
	return nil
}

// load returns what is stored, unless the context ends first.
func (e *Engine) load(ctx context.Context) (*Snapshot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	stored, err := e.store.Load(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return stored, err
}

// Load is the first Resume of an engine that is never suspended.
func (e *Engine) Load(ctx context.Context) error { return e.Resume(ctx) }

// Serving waits until the engine is not suspended and all sessions are restored: they miss
// what is published before. The returned context ends when the engine is suspended again:
// the outcome of messages that were published meanwhile is not known then.
func (e *Engine) Serving(ctx context.Context) (serving context.Context, err error) {
	for {
		now := e.generation.Load()
		if now.admits.Load() {
			return now.ctx, nil
		}
		select {
		case <-now.admitted:
		case <-now.ctx.Done(): // there is another
		case <-e.ctx.Done():
			return nil, errClosing
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// interrupt cancels every Resume that is in progress or begins before end is called.
func (e *Engine) interrupt() (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.suspending++
	e.cancelResume(errGenerationOver)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.suspending--; e.suspending == 0 {
			e.resumeCtx, e.cancelResume = context.WithCancelCause(e.ctx)
		}
	}
}

// beginResume begins a Resume, for which Close waits.
func (e *Engine) beginResume(ctx context.Context) (in context.Context, done func(), err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, nil, errClosing
	}
	e.tasks.Add(1)
	e.startWorkers()
	in, cancel := context.WithCancelCause(ctx)
	resumeCtx := e.resumeCtx
	stop := context.AfterFunc(resumeCtx, func() { cancel(context.Cause(resumeCtx)) })
	return in, func() {
		stop()
		cancel(nil)
		e.tasks.Done()
	}, nil
}

// lockTransition waits until no other call suspends or resumes the engine. It ignores the
// context if there is none.
func (e *Engine) lockTransition(ctx context.Context) error {
	select {
	case e.transition <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.transition <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until the broker is no longer being suspended or resumed: %w", context.Cause(ctx))
	}
}

func (e *Engine) unlockTransition() { <-e.transition }

// disconnectAll replaces the generation by a volatile one, after which nothing is stored, and
// returns the connections to be ended. It returns false if the engine is suspended or closing;
// otherwise the caller must call tasks.Done.
func (e *Engine) disconnectAll() (old *generation, out []*Conn, ok bool) {
	e.retained.mu.Lock()
	defer e.retained.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	old = e.generation.Load()
	if e.closing || old.volatile {
		return nil, nil, false
	}
	e.tasks.Add(1)
	e.generation.Store(newGeneration(e.store, true))
	old.close()
	e.retained.forget()
	for c := range e.conns {
		if !c.socket.AdminOnly {
			out = append(out, c)
		}
	}
	return old, out, true
}

// disconnectAndDiscard ends connections and discards the sessions of a generation.
func (e *Engine) disconnectAndDiscard(old *generation, out []*Conn, reason byte) {
	e.discardSessions(old)
	for _, c := range out {
		c.end(reason, true)
	}
	for _, c := range out {
		<-c.done
	}
	e.scheduled.await()
	e.discardSessions(old)
}

// discardSessions discards the sessions of a generation.
func (e *Engine) discardSessions(old *generation) {
	for _, s := range e.all() {
		if s.generation == old {
			s.discard()
		}
	}
}

// discard discards a session whose client is away. The session of a client of an AdminOnly
// socket continues in memory until the connection ends. Any other session with a connection
// is discarded when the connection has ended.
func (s *Session) discard() {
	s.mu.Lock()
	switch c := s.conn; {
	case c == nil:
		ended := s.conclude()
		s.mu.Unlock()
		ended.discard()
		return
	case c.socket.AdminOnly:
		s.stored, s.will.stored, s.expiry = false, false, 0
		s.dropAbsent()
		s.out.unchargeAll()
	}
	s.mu.Unlock()
}

// isRedirected reports whether another server serves the connection's client.
func (c *Conn) isRedirected() bool {
	return !c.socket.AdminOnly && !c.engine.generation.Load().admits.Load()
}

// withholdsAnswer reports whether the client gets neither an acknowledgement nor a refusal for
// changes that failed: if the outcome is uncertain, or if another server serves the client,
// which sends its packet to that server again.
func (c *Conn) withholdsAnswer(err error) bool {
	return errors.Is(err, ErrUncertain) || errors.Is(err, errGenerationOver) && !c.socket.AdminOnly
}

// errRedirected refuses a client that another server serves.
var errRedirected = &Refusal{Reason: packet.ReasonUseAnotherServer, Text: "another server serves the clients"}
