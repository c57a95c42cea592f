package db

import (
	"context"
	"fmt"
	"time"
)

// Bounds of CatchUp.
const (
	catchUpLimit = 3 * time.Second // how long a call waits at most, for its round
	catchUpPause = time.Second     // after a failed round, during which calls do not wait
)

// errBehind is why CatchUp does not wait.
var errBehind = fmt.Errorf("%w: this node may lack the latest changes of other nodes", ErrUnavailable)

// catchUpRound is one question to the log, for all calls that came before it.
type catchUpRound struct {
	done chan struct{}
	err  error // set before done is closed
}

// CatchUp returns nil when this copy has everything that was acknowledged to any caller at any node before
// the call; at once if the database is not shared. After an error, as without a majority of the nodes,
// what is read may be older.
func (d *DB) CatchUp(ctx context.Context) error {
	if s := d.sharing.Load(); s != nil {
		return s.catchUp(ctx)
	}
	if d.applied.Load() > 0 { // the node does not take part in its cluster yet
		return errBehind
	}
	return nil
}

// catchUp joins the next round. One that is under way began before the call, so its result is not
// enough.
func (s *sharing) catchUp(ctx context.Context) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return errEnded
	}
	behind := time.Since(s.behindAt) < catchUpPause
	r := &s.nextRound
	if s.round == nil {
		r = &s.round
	}
	if *r == nil {
		*r = &catchUpRound{done: make(chan struct{})}
	}
	joined := *r
	if joined == s.round {
		s.idle.Go(s.runRounds)
	}
	s.mu.Unlock()
	if behind {
		return errBehind
	}
	select {
	case <-joined.done:
		return joined.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// runRounds asks the log until no call waits.
func (s *sharing) runRounds() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.round != nil {
		r := s.round
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.ctx, catchUpLimit)
		r.err = s.log.Sync(ctx)
		cancel()
		close(r.done)
		s.mu.Lock()
		s.behindAt = time.Time{}
		if r.err != nil {
			s.behindAt = time.Now()
		}
		s.round, s.nextRound = s.nextRound, nil
	}
}
