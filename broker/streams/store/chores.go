package store

import (
	"context"
	"log/slog"
	"time"
)

// chore is something that takes long. Each step is a transaction of its own; in
// between messages are stored.
type chore struct {
	step func() (more bool, err error)
	end  func(error)
}

// chore takes a step of the chore that waits longest. It tells whether there are
// more.
func (c *committer) chore() bool {
	if len(c.chores) == 0 {
		return false
	}
	k := c.chores[0]
	c.chores = c.chores[1:]
	more, err := k.step()
	if more && err == nil {
		c.chores = append(c.chores, k)
	} else {
		k.end(err)
	}
	return len(c.chores) > 0
}

// How often it is looked for what has expired: four times within the shortest
// TTL, in these bounds.
const (
	minSweep = 250 * time.Millisecond
	maxSweep = time.Minute
)

// sweep begins to delete what has expired, what is beyond the budgets and what
// is left of deleted streams, and then to give back room, unless it is at that.
func (c *committer) sweep() {
	c.sweeps.Reset(c.interval())
	if c.busy {
		return
	}
	c.busy = true
	c.chores = append(c.chores, chore{c.sweepStep, func(err error) {
		c.busy = false
		if err != nil && c.commits.Err() == nil {
			c.log.Warn("what streams keep could not be tidied up", slog.Any("err", err))
		}
	}})
}

func (c *committer) interval() time.Duration {
	shortest := int64(maxTTL)
	for j := range c.books.all() {
		if _, ttl := j.look(); ttl > 0 {
			shortest = min(shortest, ttl)
		}
	}
	return min(max(time.Duration(min(shortest/4, maxSweep.Milliseconds()))*time.Millisecond, minSweep), maxSweep)
}

func (c *committer) sweepStep() (more bool, err error) {
	now := c.now().UnixMilli()
	var due, wide []*journal
	for j := range c.books.all() {
		if j.purging || j.expires(now) {
			due = append(due, j)
		} else if c.options.beyond(j.tally, j.tally.front) {
			wide = append(wide, j)
		}
	}
	if len(due)+len(wide) == 0 && !c.over() {
		return c.conn.GiveBack(context.Background())
	}
	err = c.transact(func(tx *transaction) error {
		for _, j := range due {
			if err := tx.letGo(j, now); err != nil {
				return err
			}
		}
		return tx.evict(&c.books, c.options, wide)
	})
	return true, err // the last step finds nothing and gives back room
}

// letGo deletes what is to go of a journal.
func (tx *transaction) letGo(j *journal, now int64) error {
	if j.purging {
		return tx.purge(j)
	}
	_, ttl := j.look()
	return tx.expire(j, now-ttl)
}

// expires tells whether the oldest block has expired.
func (j *journal) expires(now int64) bool {
	t, ttl := j.look()
	return ttl > 0 && t.front.count > 0 && t.front.lastAt < now-ttl
}

// over tells whether there is more than the budget of all streams allows and
// than must stay.
func (c *committer) over() bool {
	if c.options.MaxBytes == 0 || c.books.bytes <= c.options.MaxBytes {
		return false
	}
	j, _ := (&transaction{}).oldest(&c.books)
	return j != nil && j.tally.front.bytes < c.books.bytes
}

// beyond tells whether there is more of a stream than its budget allows and than
// its oldest block, which may be the only one.
func (o *Options) beyond(t tally, oldest block) bool {
	return o.MaxStreamBytes > 0 && t.bytes > o.MaxStreamBytes && oldest.bytes < t.bytes
}

// purge begins to delete what a stream kept that is deleted.
func (c *committer) purge(j *journal) {
	if !j.purging {
		j.purging = true
		c.books.bytes -= j.tally.bytes
	}
	c.sweep()
}
