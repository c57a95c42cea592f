package store

import (
	"context"
	"log/slog"
	"time"
)

// task is long-running work. Each step is a transaction of its own, and
// messages are stored between two steps.
type task struct {
	step func() (more bool, err error)
	end  func(error)
}

// runStep runs one step of the task that has waited longest, and reports
// whether tasks remain.
func (c *committer) runStep() bool {
	if len(c.tasks) == 0 {
		return false
	}
	t := c.tasks[0]
	c.tasks = c.tasks[1:]
	more, err := t.step()
	if more && err == nil {
		c.tasks = append(c.tasks, t)
	} else {
		t.end(err)
	}
	return len(c.tasks) > 0
}

// Bounds of the interval between sweeps, which is a quarter of the shortest
// TTL.
const (
	minSweepInterval = 250 * time.Millisecond
	maxSweepInterval = time.Minute
)

// startSweep starts a sweep unless one is running: it deletes expired messages,
// blocks beyond the budgets and the remains of deleted streams, and then
// releases free pages.
func (c *committer) startSweep() {
	c.sweepTimer.Reset(c.sweepInterval())
	if c.sweeping {
		return
	}
	c.sweeping = true
	c.tasks = append(c.tasks, task{c.sweepStep, func(err error) {
		c.sweeping = false
		if err != nil && c.commits.Err() == nil {
			c.log.Warn("expired messages of streams could not be deleted", slog.Any("error", err))
		}
	}})
}

func (c *committer) sweepInterval() time.Duration {
	shortest := int64(maxTTL)
	for sl := range c.logs.all() {
		if _, ttl := sl.read(); ttl > 0 {
			shortest = min(shortest, ttl)
		}
	}
	return min(max(time.Duration(min(shortest/4, maxSweepInterval.Milliseconds()))*time.Millisecond, minSweepInterval), maxSweepInterval)
}

func (c *committer) sweepStep() (more bool, err error) {
	now := c.now().UnixMilli()
	var due, overBudget []*storedLog
	for sl := range c.logs.all() {
		if sl.purging || sl.expires(now) {
			due = append(due, sl)
		} else if c.options.overStreamBudget(sl.totals, sl.totals.oldest) {
			overBudget = append(overBudget, sl)
		}
	}
	if len(due)+len(overBudget) == 0 && !c.overTotalBudget() {
		return c.conn.ReleasePages(context.Background())
	}
	err = c.inTransaction(func(tx *transaction) error {
		for _, sl := range due {
			if err := tx.expireOrPurge(sl, now); err != nil {
				return err
			}
		}
		return tx.evict(&c.logs, c.options, overBudget)
	})
	return true, err // the last step finds nothing to delete and releases free pages
}

// expireOrPurge deletes the blocks of a log that have expired, or all if its
// stream was deleted.
func (tx *transaction) expireOrPurge(sl *storedLog, now int64) error {
	if sl.purging {
		return tx.purge(sl)
	}
	_, ttl := sl.read()
	return tx.expire(sl, now-ttl)
}

// expires reports whether the oldest block has expired.
func (sl *storedLog) expires(now int64) bool {
	t, ttl := sl.read()
	return ttl > 0 && t.oldest.count > 0 && t.oldest.lastAt < now-ttl
}

// overTotalBudget reports whether all streams together exceed their budget. A
// single block that is left does not: the newest one is never evicted.
func (c *committer) overTotalBudget() bool {
	if c.options.MaxBytes == 0 || c.logs.bytes <= c.options.MaxBytes {
		return false
	}
	sl, _ := (&transaction{}).oldestLog(&c.logs)
	return sl != nil && sl.totals.oldest.bytes < c.logs.bytes
}

// overStreamBudget reports whether a stream exceeds its budget. A single block
// that is left does not, as it is never evicted.
func (o *Options) overStreamBudget(t totals, oldest block) bool {
	return o.MaxStreamBytes > 0 && t.bytes > o.MaxStreamBytes && oldest.bytes < t.bytes
}

// purge starts to delete the log of a deleted stream.
func (c *committer) purge(sl *storedLog) {
	if !sl.purging {
		sl.purging = true
		c.logs.bytes -= sl.totals.bytes
	}
	c.startSweep()
}
