package engine

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/mqtt/packet"
)

// errClosing refuses to suspend or resume an engine that is closing.
var errClosing = errors.New("the broker is closing")

// Suspend leaves the clients to another server. From now on only those that come
// by AdminOnly sockets are let in. The connections of all others are ended with
// a reason code, after what can still be sent to them; all sessions, Wills and
// retained messages are forgotten here, and the store, which may have gone over
// to another server's state already, is told nothing of that. Clients of
// AdminOnly sockets stay, with sessions that end with their connections.
//
// Suspend waits until all that is done or, with an error, until its context
// ends; it goes on behind that then. Its caller ensures that the store
// answers what was submitted to it. A Resume under way is broken off, and an
// engine that is suspended stays so.
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

// Resume takes over what is stored, and lets everybody in. An engine that was
// never resumed is suspended, one that is not suspended stays as it is. Clients
// of AdminOnly sockets stay connected, unless a stored session has their client
// id. Resume is broken off by its context, by Suspend and by Close, and the
// engine is suspended as before then.
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

// load reads what is stored, unless the context ends first.
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

// Serving waits until the engine is not suspended and all sessions are back: what
// is published before is lost to them. The context that it returns ends when the
// engine is suspended again, at the latest: who published meanwhile does not know
// then the outcome of it.
func (e *Engine) Serving(ctx context.Context) (serving context.Context, err error) {
	for {
		now := e.generation.Load()
		if now.admits.Load() {
			return now.ctx, nil
		}
		select {
		case <-now.admitted:
		case <-now.ctx.Done(): // there is another
		case <-e.life.Done():
			return nil, errClosing
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// interrupt breaks a Resume under way off, and those that begin before the
// function is called that it gives.
func (e *Engine) interrupt() (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.suspending++
	e.cancelResume(errGenerationOver)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.suspending--; e.suspending == 0 {
			e.resumeCtx, e.cancelResume = context.WithCancelCause(e.life)
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

// lockTransition waits until no other call suspends or resumes the engine. It does not look
// at the context where none does.
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
		return fmt.Errorf("wait for the broker's last turn to end: %w", context.Cause(ctx))
	}
}

func (e *Engine) unlockTransition() { <-e.transition }

// disconnectAll ends the generation, and with it what is stored, and returns the connections
// that are to go. It returns false if the engine is suspended or closing; else
// the caller has one task to be done.
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

// disconnectAndDiscard takes leave of clients and forgets what is left of a generation.
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

// discardSessions ends what sessions were to outlive a generation with.
func (e *Engine) discardSessions(old *generation) {
	for _, s := range e.all() {
		if s.generation == old {
			s.discard()
		}
	}
}

// discard ends what a session was to outlive its generation with. One whose client is
// there goes on in memory until the connection ends, if it is an administrator's;
// any other one is forgotten once its client has gone.
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

// isRedirected reports whether the connection's client is left to another server.
func (c *Conn) isRedirected() bool {
	return !c.socket.AdminOnly && !c.engine.generation.Load().admits.Load()
}

// withholdsAnswer reports whether the client is told nothing of changes that came to nothing:
// where it is not known whether they did, and where it goes to another server,
// which takes what it sends again.
func (c *Conn) withholdsAnswer(err error) bool {
	return errors.Is(err, ErrUncertain) || errors.Is(err, errGenerationOver) && !c.socket.AdminOnly
}

// errRedirected refuses a client that is left to another server.
var errRedirected = &Refusal{Reason: packet.ReasonUseAnotherServer, Text: "the broker leaves its clients to another server"}
