package storage

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// ProbeInterval is the time between attempts to write again after a failure,
// TidyDelay the time between a commit and the maintenance of the file, and
// tidyPause the time between two steps of that.
const (
	ProbeInterval = time.Second
	TidyDelay     = time.Second
	tidyPause     = 10 * time.Millisecond
)

// Spare is how many bytes of free pages a file keeps for later use.
const Spare = sparePages * 4096

// Free pages of 4 KiB that are kept, and how many are released at once. Changes
// wait meanwhile.
const (
	sparePages   = 4096
	pagesPerStep = 1024
)

// tidy releases some free pages, as ReleasePages does, or, if there are none to
// release, checkpoints the WAL. It reports whether there is more to do. It
// waits for no reader: what cannot be done now is left for the next call.
func (c *Conn) tidy(ctx context.Context) (more bool, err error) {
	if more, err = c.ReleasePages(ctx); more || err != nil {
		return more, err
	}
	return false, c.exclusively(ctx, func() error {
		for _, q := range []string{`PRAGMA busy_timeout = 0`, `PRAGMA wal_checkpoint(TRUNCATE)`, `PRAGMA busy_timeout = 5000`} {
			if err := c.run(q); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReleasePages returns some free pages to the file system, except those that
// are kept for later use. It reports whether there are more.
func (c *Conn) ReleasePages(ctx context.Context) (more bool, err error) {
	free, err := c.freePages(ctx)
	if err != nil || free <= sparePages {
		return false, err
	}
	q := fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, min(pagesPerStep, free-sparePages))
	if err := c.exclusively(ctx, func() error { return c.run(q) }); err != nil {
		return false, err
	}
	left, err := c.freePages(ctx)
	return left < free, err
}

func (c *Conn) freePages(ctx context.Context) (n int, err error) {
	err = c.conn.QueryRowContext(ctx, `PRAGMA freelist_count`).Scan(&n)
	return n, err
}

// ScheduleTidy schedules the maintenance of the file. A callback calls it, on
// the committer's goroutine, after a commit that Commit did not make.
func (c *Committer[E]) ScheduleTidy() {
	if c.config.TidyBusy && c.armed {
		c.idle = false
		return
	}
	c.resetTimer(TidyDelay)
	c.idle = !c.config.TidyBusy
}

// resetTimer sets the timer.
func (c *Committer[E]) resetTimer(d time.Duration) {
	c.timer.Reset(d)
	c.armed, c.idle = true, true
}

// tick handles the timer: a probe or a step of maintenance.
func (c *Committer[E]) tick() {
	if c.cause.Load() != nil {
		c.Recover()
		return
	}
	tidy, idle := c.config.Conn.tidy, c.idle
	if !idle {
		tidy = c.config.Conn.ReleasePages
	}
	more, err := tidy(context.Background())
	if err != nil {
		c.config.Log.Warn("maintenance of "+c.config.Conn.file.name+" failed", slog.Any("error", err))
	}
	switch {
	case more:
		c.resetTimer(tidyPause)
		c.idle = idle
	case !idle:
		c.resetTimer(TidyDelay)
	}
}
