package messaging

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"signalbox/broker"
)

// retryLoad is the pause before definitions that could not be read are read again.
const retryLoad = 5 * time.Second

// Engine is the work of one kind that a service does with the messages of a broker. All
// methods are safe for concurrent use.
type Engine interface {
	// Ready waits until the definitions are read and messages are taken.
	Ready(ctx context.Context) error
	// Len returns the number of definitions, as soon as they are read.
	Len(ctx context.Context) (int, error)
	// Close ends the engine and waits until what it has taken is stored, or until the
	// context ends.
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

// Lifecycle is what all engines have in common: definitions that are read in the background,
// changes of these one at a time, and an end that waits for what is under way. A [Host]
// starts it. All methods are safe for concurrent use.
type Lifecycle struct {
	brokerID string
	noun     string // what the engine has, in the singular
	log      *slog.Logger

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	ready    chan struct{} // closed when the definitions are read
	changing chan struct{} // holds one while a definition changes, and from the engine's end on
	done     chan struct{} // closed when nothing of the engine is left
}

// NewLifecycle returns the Lifecycle of a broker's engine. The noun names in errors what the
// engine has, in the singular.
func NewLifecycle(brokerID, noun string, log *slog.Logger) *Lifecycle {
	l := &Lifecycle{brokerID: brokerID, noun: noun, log: log,
		ready: make(chan struct{}), changing: make(chan struct{}, 1), done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// run loads, waits for the end, and stops. The lock is that of the broker.
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
	l.changing <- struct{}{} // waits for the change under way; no other one begins
}

// load tries until it succeeds, and reports whether it did before the end. An error that stays
// the same is logged once.
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

// Close ends the engine and waits until what it has taken is stored, or until the context ends.
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

// Change runs a change of a definition once the definitions are read, one at a time. Close
// waits for it. Its context does not end with the caller's: half a change is none that a
// caller can make good.
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

// Closing returns the error of an operation that comes after Close.
func (l *Lifecycle) Closing(op string) error {
	return &broker.Error{Kind: broker.Unavailable, Op: op,
		Msg: "the " + l.noun + "s of this broker are being closed; try again when it is back"}
}

// StoreFailed returns the error of an operation for which the store failed. An error that the
// store wrote for users keeps its text.
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
