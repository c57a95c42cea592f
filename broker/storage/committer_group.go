package storage

import "context"

// process commits a batch or refuses it, and reports whether there was any.
func (c *Committer[E]) process(t batch[E]) bool {
	switch {
	case t.task != nil:
		t.task()
	case len(t.group) == 0:
		return false
	case c.cause.Load() != nil:
		c.refuse(t.group)
	default:
		if rest, err := c.Commit(t.group); err != nil {
			c.Fail(err)
			c.refuse(rest)
		}
	}
	c.done(t.entries, t.weight)
	return true
}

// Write writes a group in one transaction, and neither reports its outcome nor
// schedules the maintenance of the file. It is only for the committer's
// goroutine.
func (c *Committer[E]) Write(group []E) error {
	if c.calls.Prepare != nil {
		if needed, err := c.calls.Prepare(group); err != nil || !needed {
			return err
		}
	}
	return c.Transact(context.Background(), func(tx Tx) error { return c.calls.Write(tx, group) })
}

// Transact runs write as one transaction, as Conn.Transact does, and calls
// After. It is only for the committer's goroutine.
func (c *Committer[E]) Transact(ctx context.Context, write func(Tx) error) error {
	err := c.config.Conn.Transact(ctx, write)
	if c.calls.After != nil {
		c.calls.After(err == nil)
	}
	return err
}

// Commit commits a group and queues its outcome. Entries that contradict what
// is stored, which is a fault of the program, are omitted, as they would fail
// for ever. After another error it returns the entries that were neither stored
// nor omitted. It is only for the committer's goroutine.
func (c *Committer[E]) Commit(group []E) (rest []E, err error) {
	if err = c.Write(group); err == nil {
		c.Finish(group, nil)
		c.ScheduleTidy()
		return nil, nil
	}
	subgroups := [][]E{group}
	if Fault(err) {
		subgroups = c.split(group)
	}
	for i, part := range subgroups {
		if len(subgroups) > 1 {
			err = c.Write(part)
		}
		if err != nil && !Fault(err) {
			for _, later := range subgroups[i:] {
				rest = append(rest, later...)
			}
			return rest, err
		}
		if err != nil {
			err = c.calls.Omit(part, err)
		}
		c.Finish(part, err)
	}
	c.ScheduleTidy()
	return nil, nil
}

func (c *Committer[E]) split(group []E) (subgroups [][]E) {
	if c.calls.Split != nil {
		return c.calls.Split(group)
	}
	for i := range group {
		subgroups = append(subgroups, group[i:i+1:i+1])
	}
	return subgroups
}

// refuse keeps or refuses entries that cannot be stored.
func (c *Committer[E]) refuse(group []E) {
	if c.calls.Refuse != nil {
		group = c.calls.Refuse(group)
	}
	if len(group) > 0 {
		c.Finish(group, c.Err())
	}
}

// Finish queues the outcome of entries, after those that are queued. It is only
// for the committer's goroutine.
func (c *Committer[E]) Finish(group []E, err error) { c.reports <- outcome[E]{group, err} }
