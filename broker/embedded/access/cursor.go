package access

import "signalbox/broker"

// batchSize is how many members are read at once, and ownerBytes how long their owners' names usually are at most.
const (
	batchSize  = 256
	ownerBytes = 64
)

// member is a role, group or password of the record owner.
type member struct {
	owner    []byte
	name     string
	priority broker.Priority
}

// members is a batch of members, and the memory of their owners' names.
type members struct {
	list   []member
	owners []byte
}

func newMembers() *members {
	return &members{list: make([]member, 0, batchSize), owners: make([]byte, 0, batchSize*ownerBytes)}
}

func (m *members) add(owner []byte, name string, p broker.Priority) {
	from := len(m.owners)
	m.owners = append(m.owners, owner...)
	m.list = append(m.list, member{m.owners[from:], name, p})
}

func (m *members) empty() { m.list, m.owners = m.list[:0], m.owners[:0] }

// memberCursor returns the members of one record after the other from a table ordered by
// owner. It must be asked for the owners in that order, and be stopped. A goroutine reads
// ahead, until the last row or stop.
type memberCursor struct {
	of      *loader
	names   func(text []byte) string // makes the members' names
	read    chan []member            // closed by the goroutine when it ends
	stopped chan struct{}
	err     error // of the goroutine; valid once read is closed

	rest, found []member
}

// sharedNames returns a function that makes one string of equal names, which are few.
func sharedNames() func(text []byte) string {
	const most = 4096
	names := map[string]string{}
	return func(text []byte) string {
		name, ok := names[string(text)]
		if !ok {
			name = string(text)
			if len(names) < most {
				names[name] = name
			}
		}
		return name
	}
}

// noNames is for members whose owners are all that matters.
func noNames([]byte) string { return "" }

func (l *loader) cursor(from table, names func(text []byte) string) *memberCursor {
	c := &memberCursor{of: l, names: names, read: make(chan []member), stopped: make(chan struct{})}
	tx := l.tx
	if len(l.beside) > 0 {
		tx = l.beside[0]
		l.beside = append(l.beside[1:], tx)
	}
	go c.run(&loader{ctx: l.ctx, tx: tx}, from)
	return c
}

// run reads all rows, in two buffers in turn: one was processed when the other is received.
func (c *memberCursor) run(own *loader, from table) {
	defer close(c.read)
	current, other := newMembers(), newMembers()
	for row := range from.rows(own) {
		priority := broker.NoPriority
		if len(row) > 2 {
			priority = broker.Priority(row[2].number)
		}
		current.add(row[0].text, c.names(row[1].text), priority)
		if len(current.list) < batchSize {
			continue
		}
		if !c.deliver(current.list) {
			return
		}
		current, other = other, current
		current.empty()
	}
	c.err = own.err
	c.deliver(current.list)
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
		if string(c.rest[0].owner) != name {
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
