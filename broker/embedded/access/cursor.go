package access

import "signalbox/broker"

// batchSize is how many members are read at once.
const batchSize = 256

// member is a role, group or password of the record owner.
type member struct {
	owner, name string
	priority    broker.Priority
}

// memberCursor returns the members of one record after the other from a query ordered by
// owner. It must be asked for the owners in that order, and be stopped. A goroutine reads
// ahead, until the last row or stop.
type memberCursor struct {
	of      *loader
	read    chan []member // closed by the goroutine when it ends
	stopped chan struct{}
	err     error // of the goroutine; valid once read is closed

	rest, found []member
}

func (l *loader) cursor(q string) *memberCursor {
	c := &memberCursor{of: l, read: make(chan []member), stopped: make(chan struct{})}
	tx := l.tx
	if len(l.beside) > 0 {
		tx = l.beside[0]
		l.beside = append(l.beside[1:], tx)
	}
	go c.run(&loader{ctx: l.ctx, tx: tx}, q)
	return c
}

// run reads all rows, in two buffers in turn: one was processed when the other is received.
func (c *memberCursor) run(own *loader, q string) {
	defer close(c.read)
	current, other := make([]member, 0, batchSize), make([]member, 0, batchSize)
	for m := range query(own, q, func(m *member) []any { return []any{&m.owner, &m.name, &m.priority} }) {
		if current = append(current, m); len(current) < batchSize {
			continue
		}
		if !c.deliver(current) {
			return
		}
		current, other = other[:0], current
	}
	c.err = own.err
	c.deliver(current)
}

func (c *memberCursor) deliver(batch []member) bool {
	select {
	case c.read <- batch:
		return true
	case <-c.stopped:
		return false
	}
}

// membersOf returns the members of an owner, valid until the next call.
func (c *memberCursor) membersOf(name string) []member {
	c.found = c.found[:0]
	for {
		if len(c.rest) == 0 {
			if c.rest = <-c.read; len(c.rest) == 0 {
				return c.found
			}
		}
		if c.rest[0].owner != name {
			return c.found
		}
		c.found = append(c.found, c.rest[0])
		c.rest = c.rest[1:]
	}
}

// stop ends the goroutine, waits for it, and keeps its error. A nil cursor needs none.
func (c *memberCursor) stop() {
	if c == nil {
		return
	}
	close(c.stopped)
	for range c.read { //nolint:revive // until the goroutine has ended
	}
	if c.of.err == nil {
		c.of.err = c.err
	}
}
