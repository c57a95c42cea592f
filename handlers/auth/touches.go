package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"signalbox/db"
)

const (
	touchEvery   = time.Minute     // the least time between two notes of one token's use
	touchDelay   = 2 * time.Second // how long notes are gathered for one write
	touchTimeout = 5 * time.Second // the longest that a write may take
	touchLimit   = 4096            // tokens in one write; the loser is the newest, noted at its next use
)

// touches gathers when tokens were used and writes many of them at once. Its timer
// runs only while there is something to write.
type touches struct {
	db  *db.DB
	log *slog.Logger

	mu      sync.Mutex // guards all below; never held while writing
	pending map[string]time.Time
	timer   *time.Timer // nil while none is set
	closed  bool
	writing sync.WaitGroup
}

func newTouches(d *db.DB, log *slog.Logger) *touches {
	return &touches{db: d, log: log, pending: map[string]time.Time{}}
}

// add notes that a token was used, unless that was noted less than a minute ago.
func (t *touches) add(token db.Token, now time.Time) {
	if now.Sub(token.LastUsedAt) < touchEvery {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.pending[token.ID]; t.closed || !known && len(t.pending) >= touchLimit {
		return
	}
	t.pending[token.ID] = now
	if t.timer == nil {
		t.writing.Add(1)
		t.timer = time.AfterFunc(touchDelay, func() {
			defer t.writing.Done()
			t.flush()
		})
	}
}

// flush writes what was gathered, in the timer's goroutine.
func (t *touches) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), touchTimeout)
	defer cancel()
	if err := t.write(ctx); err != nil {
		t.log.Warn("last use of tokens not noted", "error", err)
	}
}

func (t *touches) write(ctx context.Context) error {
	t.mu.Lock()
	used := t.pending
	t.pending, t.timer = map[string]time.Time{}, nil
	t.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	return t.db.TouchTokens(ctx, used)
}

// close stops the timer, waits for a write in progress and writes the rest.
func (t *touches) close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil && t.timer.Stop() {
		t.writing.Done()
	}
	t.mu.Unlock()
	t.writing.Wait()
	return t.write(ctx)
}
