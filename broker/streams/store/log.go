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

// Log is what one stream keeps; see streams.Log. All methods are safe for
// concurrent use.
type Log struct {
	store            *Store
	journal          *journal
	closed           atomic.Bool
	left             sync.Once // guards that another can open the journal
	evicted, expired int64     // when it was opened
}

var _ streams.Log = (*Log)(nil)

// errLogClosed is what becomes of messages that come after Close or Delete.
var errLogClosed = errors.New("what the stream keeps is closed")

// limits are bounds of a run and of a block.
type limits struct{ messages, bytes int }

// newLimits has blocks be a small part of each budget, as they go whole.
func newLimits(o Options) limits {
	l := limits{blockMessages, blockBytes}
	for _, budget := range []int64{o.MaxBytes, o.MaxStreamBytes} {
		if budget > 0 {
			l.bytes = int(min(int64(l.bytes), max(budget/8, minBlockBytes)))
		}
	}
	return l
}

// Append hands over messages to be kept; see streams.Log. While nothing can be
// stored it says why and takes none.
func (l *Log) Append(ctx context.Context, messages []messaging.Message, state []byte, settle func(error)) error {
	if err := l.store.Err(); err != nil {
		return err
	}
	e := &entry{journal: l.journal, state: slices.Clone(state), settle: settle}
	weight := entryWeight + len(state)
	for i := range messages {
		weight += size(&messages[i])
	}
	return l.submit(ctx, storage.Submission[*entry]{Entry: e, Weight: weight}, func() { e.runs = l.cut(l.store.in(messages)) })
}

// in returns messages with the times by which they are stored, and leaves these be.
func (s *Store) in(messages []messaging.Message) []messaging.Message {
	if s.timeline.Offset() == 0 {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		messages[i].At = s.timeline.In(messages[i].At)
	}
	return messages
}

// rangeIn returns a range of the time of day by the times by which messages are stored,
// which that is ahead of by a shift. Each end may be open.
func rangeIn(r streams.Range, shift int64) streams.Range {
	if r.From != math.MinInt64 {
		r.From -= shift
	}
	if r.To != math.MaxInt64 {
		r.To -= shift
	}
	return r
}

// submit submits an entry or a task when there is room, and calls fill in its turn.
func (l *Log) submit(ctx context.Context, s storage.Submission[*entry], fill func()) error {
	if err := l.store.commits.Reserve(ctx, s.Weight); err != nil {
		return err
	}
	l.journal.order.Lock()
	defer l.journal.order.Unlock()
	if l.closed.Load() || l.journal.gone {
		l.store.commits.Release(s.Weight)
		return errLogClosed
	}
	fill()
	if !l.store.commits.PutReserved(s) {
		return errClosed
	}
	return nil
}

// do has the committer run a task behind what was submitted before, and calls before
// in its turn.
func (l *Log) do(ctx context.Context, before func(), task func(*committer)) error {
	return l.submit(ctx, storage.Submission[*entry]{Task: func() { task(l.store.committer) }, Weight: entryWeight}, before)
}

// cut encodes messages as runs that fit into a block, with the journal's order
// held.
func (l *Log) cut(messages []messaging.Message) (runs []run) {
	_, ttl := l.journal.look()
	for len(messages) > 0 {
		n := l.fit(messages, ttl)
		r := encode(messages[:n], l.journal.lastAt)
		l.journal.lastAt, messages = r.lastAt, messages[n:]
		runs = append(runs, r)
	}
	return runs
}

// fit tells how many messages, one at least, go into a run.
func (l *Log) fit(messages []messaging.Message, ttl int64) int {
	limits, bytes := l.store.limits, 0
	first := max(messages[0].At, l.journal.lastAt)
	for i := range min(len(messages), limits.messages) {
		bytes += size(&messages[i])
		if i > 0 && (bytes > limits.bytes || spreads(first, messages[i].At, ttl)) {
			return i
		}
	}
	return min(len(messages), limits.messages)
}

// spreads tells whether messages are so far apart that they must not be in one
// block, which expires as a whole.
func spreads(first, last, ttl int64) bool { return ttl > 0 && last-first > ttl/2 }

// State gives the state of the query as stored last.
func (l *Log) State(ctx context.Context) (state []byte, err error) {
	const q = `SELECT state FROM state WHERE stream = ?`
	err = l.store.reading.db.QueryRowContext(ctx, q, l.journal.stream).Scan(&state)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of a query: %w", err)
	}
	return state, nil
}

// Usage tells what is kept and what went since the log was opened.
func (l *Log) Usage() streams.Usage {
	t, _ := l.journal.look()
	return streams.Usage{
		Messages: t.messages, Bytes: t.bytes,
		Evicted: l.journal.evicted.Load() - l.evicted, Expired: l.journal.expired.Load() - l.expired,
	}
}

// SetTTL sets for how many seconds messages are kept at least, 0 for ever.
func (l *Log) SetTTL(seconds int64) {
	if l.journal.setTTL(milliseconds(seconds)) {
		l.store.committer.mind()
	}
}

// Clear deletes the messages of a range; see streams.Log. Where the context ends
// first, it may still happen.
func (l *Log) Clear(ctx context.Context, r streams.Range) error {
	if r.From > r.To {
		return nil
	}
	r = rangeIn(r, l.store.timeline.Shift())
	cleared := make(chan error, 1)
	if err := l.do(ctx, func() {}, func(c *committer) { c.clear(l.journal, r, cleared) }); err != nil {
		return fmt.Errorf("clear messages: %w", err)
	}
	select {
	case err := <-cleared:
		return err
	case <-ctx.Done():
		return fmt.Errorf("clear messages: %w", context.Cause(ctx))
	}
}

// Close ends the use of the log when what was handed over is stored, or has come
// to nothing. Where the context ends first, the log is closed all the same.
func (l *Log) Close(ctx context.Context) error {
	done := make(chan struct{})
	last := []*entry{{settle: func(error) { close(done) }}}
	err := l.do(ctx, func() { l.closed.Store(true) }, func(c *committer) { c.commits.Finish(last, nil) })
	if err == nil {
		select {
		case <-done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	l.closed.Store(true)
	l.left.Do(l.journal.unclaim)
	if err == nil || errors.Is(err, errLogClosed) || errors.Is(err, errClosed) {
		return nil
	}
	return fmt.Errorf("close what a stream keeps: %w", err)
}
