package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"signalbox/db"
)

const (
	updateInterval = time.Minute     // minimum interval between two updates of one token
	updateDelay    = 2 * time.Second // how long updates are collected for one write
	updateTimeout  = 5 * time.Second // bounds one write
	updateLimit    = 4096            // tokens in one write; a new one beyond it is recorded at its next use
)

// lastUsedUpdates collects the times at which tokens were used and writes many of them at once.
// Its timer runs only while there is something to write.
type lastUsedUpdates struct {
	db  *db.DB
	log *slog.Logger

	mu      sync.Mutex // protects all below; never held while writing
	pending map[string]time.Time
	timer   *time.Timer // nil while none is set
	closed  bool
	writing sync.WaitGroup
}

func newLastUsedUpdates(d *db.DB, log *slog.Logger) *lastUsedUpdates {
	return &lastUsedUpdates{db: d, log: log, pending: map[string]time.Time{}}
}

// add records that a token was used, unless its last update is less than a minute old.
func (t *lastUsedUpdates) add(token db.Token, now time.Time) {
	if now.Sub(token.LastUsedAt) < updateInterval {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.pending[token.ID]; t.closed || !known && len(t.pending) >= updateLimit {
		return
	}
	t.pending[token.ID] = now
	if t.timer == nil {
		t.writing.Add(1)
		t.timer = time.AfterFunc(updateDelay, func() {
			defer t.writing.Done()
			t.flush()
		})
	}
}

// flush writes the collected updates, in the timer's goroutine.
func (t *lastUsedUpdates) flush() {
	ctx, cancel := context.WithTimeout(context.Background(), updateTimeout)
	defer cancel()
	if err := t.write(ctx); err != nil {
		t.log.Warn("last use of tokens could not be stored", "error", err)
	}
}

func (t *lastUsedUpdates) write(ctx context.Context) error {
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
func (t *lastUsedUpdates) close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	if t.timer != nil && t.timer.Stop() {
		t.writing.Done()
	}
	t.mu.Unlock()
	t.writing.Wait()
	return t.write(ctx)
}
