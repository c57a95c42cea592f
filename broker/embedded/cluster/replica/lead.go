package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"signalbox/broker/embedded/engine"
)

// maxInFlight is how many batches may be proposed at once. The next one gathers
// meanwhile.
const maxInFlight = 4

// MaxCommand is the greatest length of a command, in bytes. Changes that alone are longer
// are refused.
const MaxCommand = 8 << 20

// The errors of changes that are not committed.
var (
	errLeadershipEnded = uncertain{errors.New("this node no longer leads the cluster")}
	errTooLarge        = fmt.Errorf("changes to messages that have more than %d MiB are too large for a cluster", MaxCommand>>20)
)

// uncertain is an error that is an engine.ErrUncertain, too.
type uncertain struct{ error }

func (u uncertain) Is(target error) bool { return target == engine.ErrUncertain }
func (u uncertain) Unwrap() error        { return u.error }

// leading replicates changes. Its context ends with the leadership; the cause of the
// context is why the leadership ended.
type leading struct {
	*queue
	local  Local
	begin  Proposer
	encode func(dst []byte, group []*engine.Changes) []byte

	ctx    context.Context
	cancel context.CancelCauseFunc

	idle  chan *batch // not in flight
	begun chan *batch // proposed, in order
	tasks sync.WaitGroup
}

func newLeading(local Local, begin Proposer, encode func([]byte, []*engine.Changes) []byte) *leading {
	l := &leading{
		queue: newQueue(), local: local, begin: begin, encode: encode,
		idle: make(chan *batch, maxInFlight), begun: make(chan *batch, maxInFlight),
	}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	for range maxInFlight {
		l.idle <- newBatch()
	}
	return l
}

func (l *leading) Submit(c *engine.Changes) { l.put(c) }
func (l *leading) storesLocally() bool      { return false }

// Err returns why the leadership has ended, or else the error of the node's own store.
func (l *leading) Err() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return l.local.Err()
}

func (l *leading) start() {
	l.tasks.Go(l.propose)
	l.tasks.Go(l.reportOutcomes)
}

// end makes everything fail that is not committed by now.
func (l *leading) end() {
	l.cancel(errLeadershipEnded)
	l.close()
	l.tasks.Wait()
}

// finish waits until everything that was submitted is committed, as far as the context
// allows.
func (l *leading) finish(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { l.cancel(errLeadershipEnded) })
	defer stop()
	l.close()
	l.tasks.Wait()
}

// propose proposes batches in order, until the queue is closed and empty.
func (l *leading) propose() {
	defer close(l.begun)
	for b := range l.idle {
		if !l.fill(b, groupChanges, groupWeight) {
			return
		}
		l.handOver(b)
		l.begun <- b
	}
}

// handOver proposes a batch. A batch that comes after the leadership is not proposed.
func (l *leading) handOver(b *batch) {
	if l.ctx.Err() != nil {
		return
	}
	command := l.encode(make([]byte, 0, b.weight), b.group)
	if len(command) > MaxCommand {
		b.err = errTooLarge
		return
	}
	b.wait = l.begin(command)
}

// reportOutcomes reports the outcome of batches in the order in which they were proposed.
func (l *leading) reportOutcomes() {
	for b := range l.begun {
		b.report(l.await(b))
		l.done(b)
		b.reset()
		l.idle <- b
	}
}

// await returns the outcome of a batch. The first that is not committed ends the
// leadership.
func (l *leading) await(b *batch) error {
	if b.err != nil {
		return b.err
	}
	if b.wait != nil && l.ctx.Err() == nil {
		err := b.wait(l.ctx)
		if err == nil {
			return nil
		}
		l.cancel(uncertain{fmt.Errorf("the cluster has not committed changes to messages: %w", err)})
	}
	return context.Cause(l.ctx)
}
