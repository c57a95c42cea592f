package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"signalbox/broker/messaging"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// Log is an open log of a stream; see streams.Log. All methods are safe for
// concurrent use.
type Log struct {
	store            *Store
	stored           *storedLog
	closed           atomic.Bool
	release          sync.Once // of the stored log, once
	evicted, expired int64     // counters at the time when the log was opened
}

var _ streams.Log = (*Log)(nil)

// errLogClosed is the outcome of messages after Close or Delete.
var errLogClosed = errors.New("the log of the stream is closed")

// limits are the bounds of a run and of a block.
type limits struct{ messages, bytes int }

// newLimits limits blocks to a small part of each budget, because they are
// evicted as a whole.
func newLimits(o Options) limits {
	l := limits{blockMessages, blockBytes}
	for _, budget := range []int64{o.MaxBytes, o.MaxStreamBytes} {
		if budget > 0 {
			l.bytes = int(min(int64(l.bytes), max(budget/8, minBlockBytes)))
		}
	}
	return l
}

// Append submits messages; see streams.Log. While nothing can be stored, it
// returns the reason and accepts none.
func (l *Log) Append(ctx context.Context, messages []messaging.Message, state []byte, committed func(error)) error {
	if err := l.store.Err(); err != nil {
		return err
	}
	e := &entry{stored: l.stored, state: slices.Clone(state), committed: committed}
	weight := entryOverhead + len(state)
	for i := range messages {
		weight += size(&messages[i])
	}
	return l.submit(ctx, storage.Submission[*entry]{Entry: e, Weight: weight}, func() { e.runs = l.encodeRuns(l.store.toServiceTime(messages)) })
}

// toServiceTime returns the messages with their times converted to service
// time. It does not change its argument.
func (s *Store) toServiceTime(messages []messaging.Message) []messaging.Message {
	if s.timeline.Offset() == 0 {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].At = s.timeline.In(messages[i].At)
	}
	return messages
}

// rangeToServiceTime converts a range of the time of day to service time, which
// it is ahead of by shift. Open ends stay open.
func rangeToServiceTime(r streams.Range, shift int64) streams.Range {
	if r.From != math.MinInt64 {
		r.From -= shift
	}
	if r.To != math.MaxInt64 {
		r.To -= shift
	}
	return r
}

// submit waits for capacity and submits an entry or a task. It calls prepare
// while it holds the order of the log.
func (l *Log) submit(ctx context.Context, s storage.Submission[*entry], prepare func()) error {
	if err := l.store.commits.Reserve(ctx, s.Weight); err != nil {
		return err
	}
	l.stored.order.Lock()
	defer l.stored.order.Unlock()
	if l.closed.Load() || l.stored.deleted {
		l.store.commits.Release(s.Weight)
		return errLogClosed
	}
	prepare()
	if !l.store.commits.PutReserved(s) {
		return errClosed
	}
	return nil
}

// do submits a task, which runs after everything that was submitted before. It
// calls before while it holds the order of the log.
func (l *Log) do(ctx context.Context, before func(), task func(*committer)) error {
	return l.submit(ctx, storage.Submission[*entry]{Task: func() { task(l.store.committer) }, Weight: entryOverhead}, before)
}

// encodeRuns encodes messages as runs that fit into a block. The caller holds
// the order of the log.
func (l *Log) encodeRuns(messages []messaging.Message) (runs []run) {
	_, ttl := l.stored.read()
	for len(messages) > 0 {
		n := l.runLength(messages, ttl)
		r := encode(messages[:n], l.stored.lastAt)
		l.stored.lastAt, messages = r.lastAt, messages[n:]
		runs = append(runs, r)
	}
	return runs
}

// runLength returns how many of the messages the next run has, at least one.
func (l *Log) runLength(messages []messaging.Message, ttl int64) int {
	limits, bytes := l.store.limits, 0
	first := max(messages[0].At, l.stored.lastAt)
	for i := range min(len(messages), limits.messages) {
		bytes += size(&messages[i])
		if i > 0 && (bytes > limits.bytes || tooFarApart(first, messages[i].At, ttl)) {
			return i
		}
	}
	return min(len(messages), limits.messages)
}

// tooFarApart reports whether two times must not be in the same block, which
// expires as a whole.
func tooFarApart(first, last, ttl int64) bool { return ttl > 0 && last-first > ttl/2 }

// State returns the last stored state of the query.
func (l *Log) State(ctx context.Context) (state []byte, err error) {
	const q = `SELECT state FROM state WHERE stream = ?`
	err = l.store.reader.db.QueryRowContext(ctx, q, l.stored.stream).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of a query: %w", err)
	}
	return state, nil
}

// Usage returns the size of the log, and the messages that were evicted or
// expired since it was opened.
func (l *Log) Usage() streams.Usage {
	t, _ := l.stored.read()
	return streams.Usage{
		Messages: t.messages, Bytes: t.bytes,
		Evicted: l.stored.evicted.Load() - l.evicted, Expired: l.stored.expired.Load() - l.expired,
	}
}

// SetTTL sets for how many seconds messages are kept at least, 0 for ever.
func (l *Log) SetTTL(seconds int64) {
	if l.stored.setTTL(milliseconds(seconds)) {
		l.store.committer.scheduleSweep()
	}
}

// Clear deletes the messages of a range; see streams.Log. If the context ends
// first, the deletion may still happen.
func (l *Log) Clear(ctx context.Context, r streams.Range) error {
	if r.From > r.To {
		return nil
	}
	r = rangeToServiceTime(r, l.store.timeline.Shift())
	cleared := make(chan error, 1)
	if err := l.do(ctx, func() {}, func(c *committer) { c.startClear(l.stored, r, cleared) }); err != nil {
		return fmt.Errorf("clear messages: %w", err)
	}
	select {
	case err := <-cleared:
		return err
	case <-ctx.Done():
		return fmt.Errorf("clear messages: %w", context.Cause(ctx))
	}
}

// Close closes the log after everything that was submitted has an outcome. If
// the context ends first, the log is closed as well.
func (l *Log) Close(ctx context.Context) error {
	done := make(chan struct{})
	last := []*entry{{committed: func(error) { close(done) }}}
	err := l.do(ctx, func() { l.closed.Store(true) }, func(c *committer) { c.commits.Finish(last, nil) })
	if err == nil {
		select {
		case <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	l.closed.Store(true)
	l.release.Do(l.stored.release)
	if err == nil || errors.Is(err, errLogClosed) || errors.Is(err, errClosed) {
		return nil
	}
	return fmt.Errorf("close the log of a stream: %w", err)
}
