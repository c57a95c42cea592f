package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Log is the log that all nodes of a cluster apply in the same order.
type Log interface {
	// Propose appends an entry and returns what Apply has returned for it, after this node has
	// applied it. The error is ErrUnavailable if the entry is not in the log and never will be;
	// after any other the entry may have been applied, or still may be. After ErrUnconfirmed it
	// is proposed again.
	Propose(ctx context.Context, entry []byte) (result []byte, err error)
	// Sync returns nil once this node has applied everything that was acknowledged to any caller of
	// Propose, at any node, before the call.
	Sync(ctx context.Context) error
	// Leads reports whether this node leads those that apply the log, as far as it knows.
	Leads() bool
}

// Bounds of writes in a database that is shared.
const (
	shareLimit   = 30 * time.Second      // how long a write takes at most
	proposeLimit = 10 * time.Second      // how long an entry is waited for, however often it is proposed
	shareGroup   = 256                   // writes in one entry at most
	shareBytes   = 1 << 20               // in one entry, if there are several writes in it
	shareWait    = 25 * time.Millisecond // before a write is repeated, while another copy alone may change the content
	fairAfter    = 2                     // conflicts, after which the next change is reserved
)

// sharing writes to a database that is shared. Its goroutine, which runs while something is to be
// written, executes the writes that wait on the present content, undoes that, and proposes
// what they have changed as one entry.
type sharing struct {
	d    *DB
	log  Log
	ctx  context.Context // until it ends
	stop context.CancelFunc

	mu        sync.Mutex // guards what follows
	waiting   []*sharedWrite
	running   bool
	round     *catchUpRound // under way, nil for none
	nextRound *catchUpRound // of the calls that came since it began, nil if none did
	behindAt  time.Time     // when the last round failed, zero if it did not
	ended     bool
	idle      sync.WaitGroup
}

var errEnded = fmt.Errorf("%w: this node does not take part in the cluster any more", ErrUnavailable)

// write runs fn and returns when its changes are applied here. An error of fn about the content
// is returned only if the content was that of all nodes.
func (s *sharing) write(ctx context.Context, fn func(*writeTx) error) error {
	return s.writeWithin(ctx, shareLimit, fn)
}

// writeWithin is write with a limit of its own.
func (s *sharing) writeWithin(ctx context.Context, limit time.Duration, fn func(*writeTx) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrUnavailable)
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w := &sharedWrite{fn: fn, done: make(chan error, 1)}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errEnded
	}
	s.waiting = append(s.waiting, w)
	if !s.running {
		s.running = true
		s.idle.Go(s.run)
	}
	s.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return w.leave(context.Cause(ctx))
	}
}

// run writes until nothing waits.
func (s *sharing) run() {
	for {
		s.mu.Lock()
		n := min(len(s.waiting), shareGroup)
		group := s.waiting[:n:n]
		s.waiting = s.waiting[n:]
		s.running = n > 0
		s.mu.Unlock()
		if n == 0 {
			return
		}
		s.commit(group)
	}
}

// commit writes until each write of a group has an outcome.
func (s *sharing) commit(group []*sharedWrite) {
	conflicts := 0
	for len(group) > 0 {
		part, e, err := s.execute(group)
		if err != nil {
			for _, w := range group {
				w.finish(err)
			}
			return
		}
		if part = proposable(part); part != nil {
			e.reserve = conflicts >= fairAfter
			if outcome := s.propose(e, part); outcome == resultConflict || outcome == resultReserved {
				conflicts++
			}
		}
		group = unfinished(group)
	}
}

// proposable returns the part if it may be proposed as a whole, nil otherwise.
func proposable(part []*sharedWrite) []*sharedWrite {
	all := true
	for _, w := range part {
		all = w.propose() && all
	}
	if !all {
		return nil
	}
	return part
}

// unfinished returns the writes that have no outcome yet.
func unfinished(group []*sharedWrite) (rest []*sharedWrite) {
	for _, w := range group {
		w.mu.Lock()
		if !w.left {
			rest = append(rest, w)
		}
		w.mu.Unlock()
	}
	return rest
}

// propose proposes an entry and finishes the writes in it, unless they must be repeated. It proposes
// the same entry again while it is not known whether it was applied.
func (s *sharing) propose(e *entry, part []*sharedWrite) (outcome byte) {
	ctx, cancel := context.WithTimeout(s.ctx, proposeLimit)
	defer cancel()
	e.id = rand.Text()
	outcome, err := s.proposeOnce(ctx, e)
	for err == nil && e.again && outcome == resultReserved || errors.Is(err, ErrUnconfirmed) && ctx.Err() == nil {
		e.again = true
		if outcome, err = s.proposeOnce(ctx, e); errors.Is(err, ErrUnavailable) {
			err = fmt.Errorf("%w: %s", ErrUnconfirmed, err.Error()) // what was proposed before may be applied
			break
		}
	}
	switch outcome {
	case resultApplied:
		for _, w := range part {
			w.finish(w.err)
		}
		return outcome
	case resultConflict, resultReserved:
		for _, w := range part {
			w.withdraw()
		}
		return outcome
	}
	if err == nil {
		err = errors.New("the log does not tell whether the entry was applied")
	}
	for _, w := range part {
		w.finish(w.outcomeOf(err))
	}
	return 0
}

// proposeOnce returns the outcome of an entry, 0 with an error. It waits a little if the entry must be
// proposed again.
func (s *sharing) proposeOnce(ctx context.Context, e *entry) (outcome byte, err error) {
	proposal := e.encode()
	if len(proposal) > maxEntry {
		return 0, fmt.Errorf("%w: a change that the nodes of a cluster share has at most %d MiB", ErrTooLarge, maxEntry>>20)
	}
	changed := s.d.changed.wait()
	result, err := s.log.Propose(ctx, proposal)
	if err == nil && len(result) == 1 {
		outcome = result[0]
	}
	if outcome == resultReserved || errors.Is(err, ErrUnconfirmed) {
		pause(ctx, changed)
	}
	return outcome, err
}

// pause waits until the content has changed, but not for long.
func pause(ctx context.Context, changed <-chan struct{}) {
	t := time.NewTimer(shareWait)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
	}
}

// execute executes writes one after the other on the present content, and undoes them. It
// returns those that fit into one entry, and the entry. A write that failed, but for a reason
// that is about the content, has its outcome then and is not part of it.
func (s *sharing) execute(group []*sharedWrite) (part []*sharedWrite, e *entry, err error) {
	e = &entry{schema: s.d.schema.stored.Load(), origin: s.d.origin}
	tx, err := s.d.rw.BeginTx(s.ctx, nil)
	if err != nil {
		return nil, nil, orEnded(s.ctx, err)
	}
	defer tx.Rollback() // what was executed counts only once it is applied
	if err := tx.QueryRowContext(s.ctx, "SELECT version FROM shared_state").Scan(&e.base); err != nil {
		return nil, nil, orEnded(s.ctx, err)
	}
	size := 0
	for _, w := range group {
		recorded, ended, err := w.execute(s.ctx, tx)
		if err != nil { // the transaction has ended, and the others are executed again
			return nil, e, nil
		}
		if ended {
			continue
		}
		if size += recorded.size; size > shareBytes && len(part) > 0 {
			break
		}
		part = append(part, w)
		e.statements = append(e.statements, recorded.statements...)
	}
	return part, e, nil
}
