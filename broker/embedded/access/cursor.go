package access

import (
	"strconv"

	"signalbox/broker"
)

// batchSize is how many members are read at once.
const batchSize = 256

// member is a role, group or password of the record owner.
type member struct {
	owner, name string
	priority    broker.Priority
}

// memberCursor returns the members of one record after the other from a table ordered by
// owner. It must be asked for the owners in that order, and be stopped. A goroutine reads
// ahead, until the last row or stop.
type memberCursor struct {
	of      *loader
	read    chan []member // closed by the goroutine when it ends
	stopped chan struct{}
	err     error // of the goroutine; valid once read is closed

	rest, found []member
}

// membersIn is a table of members.
func membersIn(table, owner, name string) listing {
	return listing{table: table, key: []string{owner, name}, rest: `iif(priority = -1, x'0000', x'00' || priority || x'00')`, width: 3}
}

func (l *loader) cursor(members listing) *memberCursor {
	c := &memberCursor{of: l, read: make(chan []member), stopped: make(chan struct{})}
	tx := l.tx
	if len(l.beside) > 0 {
		tx = l.beside[0]
		l.beside = append(l.beside[1:], tx)
	}
	go c.run(&loader{ctx: l.ctx, tx: tx}, members)
	return c
}

// run reads all rows, in two buffers in turn: one was processed when the other is received.
func (c *memberCursor) run(own *loader, members listing) {
	defer close(c.read)
	current, other := make([]member, 0, batchSize), make([]member, 0, batchSize)
	for row := range members.rows(own) {
		m := member{owner: row[0], priority: broker.NoPriority}
		if members.width > 1 {
			m.name = row[1]
		}
		if members.width > 2 && row[2] != "" {
			var n int64
			if n, own.err = strconv.ParseInt(row[2], 10, 64); own.err != nil {
				break
			}
			m.priority = broker.Priority(n)
		}
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
