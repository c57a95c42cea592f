package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/storage"
)

// Queue is the queue of one connection; see bridges.Queue. All methods are safe for concurrent
// use.
type Queue struct {
	store       *Store
	state       *queueState
	closed      atomic.Bool
	releaseOnce sync.Once // allows the queue to be opened again, once
}

var _ bridges.Queue = (*Queue)(nil)

// Put puts an entry; see bridges.Queue. Without a callback it is dropped if too much waits to be
// stored. An entry for a deleted connection is dropped too.
func (q *Queue) Put(e bridges.Entry, settle func(error)) {
	if q.closed.Load() {
		q.refuse(settle)
		return
	}
	if settle == nil && q.store.commits.Full() {
		q.state.dropped.Add(1)
		return
	}
	i := &item{state: q.state, record: record{Entry: &e}, size: int64(e.Size()), settle: settle}
	if !q.submit(i) {
		q.refuse(settle)
	}
}

// submit submits an entry to the committer, early if that is possible. One of QoS 0 waits for
// others, unless a reader may wait for it. It reports false if the store is closed.
func (q *Queue) submit(i *item) bool {
	j := q.state
	j.mu.Lock()
	defer j.mu.Unlock()
	behind := j.window.to != j.next || full(j.bounds, j.sums.messages+j.early.messages+1, j.sums.bytes+j.early.bytes+i.size)
	i.early = !behind && q.store.mayBeEarly(j, i)
	if i.early {
		i.record.ID = j.next
		i.record.MessageID = j.messageID(i.record)
	}
	deferred := i.settle == nil && i.record.QoS == 0 && (i.early || behind)
	if !q.store.commits.Put(storage.Submission[*item]{Entry: i, Weight: itemWeight + int(i.size), Deferred: deferred}) {
		if i.early {
			q.store.queues.early.Add(-i.size)
		}
		return false
	}
	if i.early {
		j.addEarly(i)
	} else {
		j.late++
	}
	return true
}

// refuse settles an entry that was put after Close.
func (q *Queue) refuse(settle func(error)) {
	q.state.dropped.Add(1)
	if settle != nil {
		go settle(errClosed)
	}
}

// Peek returns entries that are not removed; see bridges.Queue. They are shared with
// later calls. Damaged ones are omitted.
func (q *Queue) Peek(ctx context.Context, after uint64, messages, bytes int) ([]*bridges.Entry, error) {
	for {
		list, read := q.state.peek(after, messages, bytes)
		if !read {
			return list, nil
		}
		if err := q.fill(ctx, after); err != nil {
			return nil, err
		}
	}
}

// Ready returns a channel that receives when there may be new entries.
func (q *Queue) Ready() <-chan struct{} { return q.state.ready }

// Remove removes entries; see bridges.Queue.
func (q *Queue) Remove(ids []uint64) {
	if len(ids) > 0 && q.state.requestRemoval(ids) {
		q.store.commits.PutFirst(&item{state: q.state, remove: true})
	}
}

// SetBounds changes the bounds.
func (q *Queue) SetBounds(b bridges.Bounds) {
	q.state.mu.Lock()
	defer q.state.mu.Unlock()
	q.state.bounds = b
}

// Usage returns what is stored and what was dropped.
func (q *Queue) Usage() bridges.Usage {
	t := q.state.usage()
	return bridges.Usage{
		Messages: t.messages, Bytes: t.bytes, DeadLetters: t.dead,
		Dropped: q.state.dropped.Load(), LostDeadLetters: q.state.lostDeadLetters.Load(),
	}
}

// do has the committer run a task after everything that was submitted. It reports false if the
// store is closed.
func (s *Store) do(task func(*committer)) bool {
	return s.commits.Put(storage.Submission[*item]{Task: func() { task(s.committer) }, Weight: itemWeight})
}

// do has the committer run a task after everything that was submitted, and waits for it. The task
// runs even if the context ends first.
func (q *Queue) do(ctx context.Context, task func(*committer) error) error {
	done := make(chan error, 1)
	if !q.store.do(func(c *committer) { done <- task(c) }) {
		return errClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reject makes dead letters from entries; see bridges.Queue.
func (q *Queue) Reject(ctx context.Context, list []bridges.Rejection) error {
	err := q.do(ctx, func(c *committer) error {
		return c.change(q.state, func(tx *transaction, ch *change) error { return tx.reject(ch, list) })
	})
	if err != nil {
		return fmt.Errorf("keep dead letters: %w", err)
	}
	return nil
}

// change changes a queue durably, unless it was deleted.
func (c *committer) change(j *queueState, write func(*transaction, *change) error) error {
	if j.purging {
		return nil
	}
	if err := c.conn.SetDurability(c.options.Durability); err != nil {
		return err
	}
	err := c.inTransaction(func(tx *transaction) error { return write(tx, tx.change(j)) })
	if err != nil {
		return c.file.Failure(err, "the bridges' database refuses it; see the log for the cause")
	}
	c.commits.ScheduleTidy()
	return nil
}

// Close closes the queue when every entry that was put has an outcome. If the context ends first,
// the queue is closed all the same.
func (q *Queue) Close(ctx context.Context) error {
	if q.closed.Swap(true) {
		return nil
	}
	defer q.releaseOnce.Do(q.state.release)
	done := make(chan struct{})
	last := []*item{{settle: func(error) { close(done) }}}
	if !q.store.do(func(c *committer) { c.commits.Finish(last, nil) }) {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the queue of a bridge: %w", context.Cause(ctx))
	}
}

// timeOf converts a stored time.
func timeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// errNoQueue is the error for a connection that does not exist.
func errNoQueue(connection string) error {
	return &broker.Error{Kind: broker.NotFound, Msg: fmt.Sprintf("there is no connection %q", connection)}
}
