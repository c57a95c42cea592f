package storage

import "context"

// groupWeight bounds the entries of one transaction, in bytes.
const groupWeight = 4 << 20

// MaxPending bounds what is submitted and neither committed nor refused, in bytes.
const MaxPending = 64 << 20

// Limits bound the entries of one transaction, the entries that are submitted
// and neither committed nor refused, and their weight in bytes. Entries may be
// 0 for no bound, Pending for MaxPending.
type Limits struct{ GroupEntries, Entries, Pending int }

// gatherWeight is how much may wait before it is committed although all of it is
// Deferred, in bytes.
const gatherWeight = groupWeight / 4

// Submission is an entry, or a task that the committer runs alone between two
// transactions. Weight is its share of MaxPending, in bytes. An entry that is
// Deferred waits for Config.Gather, and up to twice that, unless one that is not
// Deferred is committed before.
type Submission[E any] struct {
	Entry    E
	Task     func() // instead of an entry
	Weight   int
	Deferred bool
}

// Put submits an entry or a task. It reports false after Close. It does not block:
// the limits hold because callers respect Full, WaitForCapacity or Reserve.
func (c *Committer[E]) Put(s Submission[E]) bool { return c.put(s, s.Weight) }

// PutReserved submits an entry or a task for which Reserve was called. It
// reports false after Close.
func (c *Committer[E]) PutReserved(s Submission[E]) bool { return c.put(s, 0) }

// put appends a submission, of whose weight unreserved is not reserved yet, unless the
// committer was closed.
func (c *Committer[E]) put(s Submission[E], unreserved int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.count(0, unreserved-s.Weight)
		return false
	}
	entries := 1
	if s.Task != nil {
		entries = 0
	}
	first := c.nothingWaits()
	c.waiting = append(c.waiting, s)
	c.count(entries, unreserved)
	c.schedule(s.Deferred && c.weight < gatherWeight, first)
	return true
}

// PutFirst submits an entry that precedes all others that wait, is Deferred and
// not bounded. It is part of the next transaction even after Close, if there
// still is one.
func (c *Committer[E]) PutFirst(e E) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.nothingWaits()
	c.first = append(c.first, e)
	c.schedule(true, first)
}

// nothingWaits reports whether nothing waits. The caller holds mu.
func (c *Committer[E]) nothingWaits() bool { return len(c.first) == 0 && c.head == len(c.waiting) }

// schedule has the committer commit what waits: at once, or, if all of it is
// deferred, when it is due. First is set for the first submission that waits. The
// caller holds mu.
func (c *Committer[E]) schedule(deferred, first bool) {
	switch {
	case !deferred || c.config.Gather == 0:
		c.due = true
		c.Notify()
	case first:
		c.aged = len(c.waiting) - c.head
		c.gather.Reset(c.config.Gather)
	}
}

// ripen makes what had waited at the last tick ripe, and schedules the next tick.
func (c *Committer[E]) ripen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticked = len(c.first) > 0
	c.ripe, c.aged = c.aged, len(c.waiting)-c.head
	if c.ticked || c.aged > 0 { // also for what is submitted before the next take
		c.gather.Reset(c.config.Gather)
	}
}

// Notify makes the committer call Work soon. It does not block.
func (c *Committer[E]) Notify() {
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// refuseSubmissions makes Put and Reserve fail, also for callers that wait.
func (c *Committer[E]) refuseSubmissions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.wakeWaiting()
	c.Notify()
}

// batch is what is taken at once: the entries of one transaction, or a task. Both
// are nil if nothing waits.
type batch[E any] struct {
	group           []E
	task            func()
	entries, weight int
	ended           bool // nothing waits, and Close was called
}

// take returns a task, or as many entries as one transaction may have; at least
// one if any waits and is due.
func (c *Committer[E]) take() (t batch[E]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	due := len(c.waiting)
	if !c.due && !c.closed {
		if due = c.head + c.ripe; c.ripe == 0 && !c.ticked {
			return t
		}
	}
	end := c.head
	for end < due && end-c.head < c.config.Limits.GroupEntries && t.weight < groupWeight && c.waiting[end].Task == nil {
		t.weight += c.waiting[end].Weight
		end++
	}
	t.entries = end - c.head
	switch {
	case t.entries+len(c.first) > 0:
		t.group = append(make([]E, 0, len(c.first)+t.entries), c.first...)
		for i := range c.waiting[c.head:end] {
			t.group = append(t.group, c.waiting[c.head+i].Entry)
		}
		clear(c.first)
		c.first = c.first[:0]
	case end < len(c.waiting):
		t.task, t.weight = c.waiting[end].Task, c.waiting[end].Weight
		end++
	default:
		c.due, c.ticked, t.ended = false, false, c.closed
		return t
	}
	clear(c.waiting[c.head:end])
	c.ripe, c.aged = max(0, c.ripe-(end-c.head)), max(0, c.aged-(end-c.head))
	c.head = end
	c.compact()
	c.due, c.ticked = c.due && !c.nothingWaits(), false
	return t
}

// compact moves the waiting submissions to the front. The caller holds mu.
func (c *Committer[E]) compact() {
	if c.head >= len(c.waiting)/2 {
		n := copy(c.waiting, c.waiting[c.head:])
		clear(c.waiting[n:])
		c.waiting, c.head = c.waiting[:n], 0
	}
}

// Full reports whether the limits are reached.
func (c *Committer[E]) Full() bool { return c.full.Load() }

// WaitForCapacity waits while the limits are reached, until Close.
func (c *Committer[E]) WaitForCapacity() {
	if c.full.Load() {
		c.Reserve(context.Background(), 0) //nolint:errcheck // only that of Close
	}
}

// Reserve waits for capacity and reserves it for PutReserved or Release.
func (c *Committer[E]) Reserve(ctx context.Context, weight int) error {
	for {
		notFull, err := c.tryReserve(weight)
		if notFull == nil {
			return err
		}
		select {
		case <-notFull:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryReserve reserves weight unless the limits are reached; then it returns the
// channel to wait for.
func (c *Committer[E]) tryReserve(weight int) (notFull <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, c.config.Closed
	}
	if !c.full.Load() {
		c.count(0, weight)
		return nil, nil
	}
	if c.notFull == nil {
		c.notFull = make(chan struct{})
	}
	return c.notFull, nil
}

// Release releases capacity that was reserved.
func (c *Committer[E]) Release(weight int) { c.done(0, weight) }

// done releases the capacity of entries and their weight.
func (c *Committer[E]) done(entries, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(-entries, -weight)
}

// count adds to the pending entries and weight. The caller holds mu.
func (c *Committer[E]) count(entries, weight int) {
	c.entries += entries
	c.weight += weight
	full := c.config.Limits.Entries > 0 && c.entries >= c.config.Limits.Entries || c.weight >= c.config.Limits.Pending
	if full != c.full.Load() {
		c.full.Store(full)
		if !full {
			c.wakeWaiting()
		}
	}
}

// wakeWaiting wakes all callers that wait for capacity. The caller holds mu.
func (c *Committer[E]) wakeWaiting() {
	if c.notFull != nil {
		close(c.notFull)
		c.notFull = nil
	}
}
