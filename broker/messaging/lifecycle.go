package messaging

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"signalbox/broker"
)

// retryLoad is the pause between attempts to read the definitions.
const retryLoad = 5 * time.Second

// Engine processes the messages of a broker: as streams or as bridges. All
// methods are safe for concurrent use.
type Engine interface {
	// Ready waits until the definitions are read and messages are taken.
	Ready(ctx context.Context) error
	// Len waits until the definitions are read, and returns their number.
	Len(ctx context.Context) (int, error)
	// Refresh puts in force what a [Registry] has, after the definitions were read.
	Refresh(ctx context.Context) error
	// Close closes the engine and waits until what it has taken is stored, or
	// until the context ends.
	Close(ctx context.Context) error
}

// StreamEngine is an Engine whose definitions are streams.
type StreamEngine interface {
	Engine
	broker.Streams
}

// BridgeEngine is an Engine whose definitions are the connections of bridges.
type BridgeEngine interface {
	Engine
	broker.Bridges
}

// Lifecycle is what all engines have in common: definitions that are read in
// the background and changed one at a time, and a close that waits for work in
// progress. A [Host] starts it. All methods are safe for concurrent use.
type Lifecycle struct {
	brokerID string
	noun     string // of a definition, in the singular
	log      *slog.Logger

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	ready    chan struct{} // closed when the definitions are read
	changing chan struct{} // has an element while a definition changes, and after the engine has ended
	done     chan struct{} // closed when the engine has ended

	follow func(context.Context) error // puts in force what a Registry has; nil without one
}

// NewLifecycle returns the Lifecycle of a broker's engine. The noun is used in
// errors for a definition, in the singular.
func NewLifecycle(brokerID, noun string, log *slog.Logger) *Lifecycle {
	l := &Lifecycle{brokerID: brokerID, noun: noun, log: log,
		ready: make(chan struct{}), changing: make(chan struct{}, 1), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run loads, waits for Close, and stops. The lock is that of the broker.
func (l *Lifecycle) run(lock chan struct{}, load func(context.Context) error, stop func()) {
	select {
	case lock <- struct{}{}:
		defer func() { <-lock }()
	case <-l.ctx.Done():
		return
	}
	defer stop()
	if !l.load(load) {
		return
	}
	close(l.ready)
	<-l.ctx.Done()
	l.changing <- struct{}{} // waits for the change in progress, and prevents others
}

// load retries until it succeeds, and reports whether it did before Close. An
// error that is repeated is logged once.
func (l *Lifecycle) load(load func(context.Context) error) bool {
	for logged := ""; ; {
		err := load(l.ctx)
		if err == nil {
			return true
		}
		if l.ctx.Err() != nil {
			return false
		}
		if text := err.Error(); text != logged {
			l.log.Error("the stored "+l.noun+"s could not be read; trying again", "error", err)
			logged = text
		}
		if !Sleep(l.ctx, retryLoad) {
			return false
		}
	}
}

// Context returns a context that ends when Close is called.
func (l *Lifecycle) Context() context.Context { return l.ctx }

// Close closes the engine and waits until what it has taken is stored, or until
// the context ends.
func (l *Lifecycle) Close(ctx context.Context) error {
	l.cancel()
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ready waits until the definitions are read and messages are taken.
func (l *Lifecycle) Ready(ctx context.Context) error {
	select {
	case <-l.ready:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
	}
	return l.ctx.Err()
}

// Await is Ready for an operation, with an error for users.
func (l *Lifecycle) Await(ctx context.Context, op string) error {
	err := l.Ready(ctx)
	switch {
	case err == nil:
		return nil
	case l.ctx.Err() != nil:
		return l.Closing(op)
	}
	return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "the stored " + l.noun + "s are not read yet; try again", Err: err}
}

// Change runs a change of a definition after the definitions were read, one
// change at a time. Close waits for it. The change does not end with the
// caller's context, as a caller cannot repair an incomplete change.
func (l *Lifecycle) Change(ctx context.Context, op string, change func(context.Context) error) error {
	if err := l.Await(ctx, op); err != nil {
		return err
	}
	select {
	case l.changing <- struct{}{}:
	case <-l.ctx.Done():
		return l.Closing(op)
	case <-ctx.Done():
		return &broker.Error{Kind: broker.Unavailable, Op: op, Msg: "another " + l.noun + " is being changed; try again", Err: ctx.Err()}
	}
	defer func() { <-l.changing }()
	return change(context.WithoutCancel(ctx))
}

// Closing returns the error of an operation after Close.
func (l *Lifecycle) Closing(op string) error {
	return &broker.Error{Kind: broker.Unavailable, Op: op,
		Msg: "the " + l.noun + "s of this broker are being closed; try again when it is back"}
}

// StoreFailed returns the error of an operation that failed in the store. An
// error that the store wrote for users keeps its text.
func (l *Lifecycle) StoreFailed(op string, err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return &broker.Error{Kind: e.Kind, Op: op, Msg: e.Msg, Fields: e.Fields, Err: err}
	}
	return &broker.Error{Kind: broker.Internal, Op: op, Msg: "the " + l.noun + "s' database failed; see the service's log", Err: err}
}

// Sleep waits for a duration. It reports false if the context ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
