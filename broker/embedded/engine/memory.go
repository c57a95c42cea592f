package engine

import "sync/atomic"

// leastMemory is how much of a connected client's queue may be in memory regardless of all
// others, in bytes, unless the configuration allows less. The queue of a client that is away
// is in the store only.
const leastMemory = 64 << 10

// entryMemory is what a message in memory takes in addition to its content, in bytes.
const entryMemory = 256

// memory counts the messages of a queue that are in memory.
type memory struct {
	bytes    int64         // of messages in memory
	absent   int           // messages that are in the store only and are still to be sent
	reported int64         // bytes above leastMemory that total includes
	total    *atomic.Int64 // of all queues; nil for none
}

func (e *entry) memory() int64 { return int64(e.size) + entryMemory }

// wanted reports whether the content of the message is still needed. After PUBREC only its
// packet identifier is.
func (e *entry) wanted() bool { return e.state&(released|done) == 0 }

func (m *memory) added(e *entry) {
	if e.message != nil {
		m.count(e.memory())
	} else if e.wanted() {
		m.absent++
	}
}

func (m *memory) removed(e *entry) {
	if e.message != nil {
		m.count(-e.memory())
	} else if e.wanted() {
		m.absent--
	}
}

// count adds to bytes, and to total what exceeds leastMemory: most queues are short, and
// touch no counter that others use.
func (m *memory) count(bytes int64) {
	m.bytes += bytes
	above := max(m.bytes-leastMemory, 0)
	if d := above - m.reported; d != 0 && m.total != nil {
		m.reported = above
		m.total.Add(d)
	}
}

func (m *memory) clear() {
	m.count(-m.bytes)
	m.absent = 0
}

// full reports whether the next message of a connected client is left in the store. The
// messages behind one that is in the store only are left there too, so that they are read
// together.
func (m *memory) full(c *Config) bool {
	switch {
	case m.absent > 0 || m.bytes > c.ConnectedMemory:
		return true
	case m.bytes <= leastMemory || m.total == nil:
		return false
	}
	return m.total.Load() > c.QueueMemory
}

// evict drops a stored message from memory. Its Serial stays. mu is held.
func (s *Session) evict(e *entry) {
	if e.message == nil || e.id == 0 || e.state&committed == 0 {
		return
	}
	e.serial = s.engine.Serial(e.message)
	s.out.memory.removed(e)
	e.message = nil
	s.out.memory.added(e)
}

// loaded puts a message that was read from the store into memory.
func (o *outgoingQueue) loaded(e *entry, m *Message) {
	o.memory.removed(e)
	e.message = m
	o.memory.added(e)
}

// release records a PUBREC.
func (o *outgoingQueue) release(e *entry) {
	o.memory.removed(e)
	e.state |= released
	if e.id != 0 {
		e.message = nil
	}
	o.memory.added(e)
}

// noteStored records that a message is stored, and evicts it if it need not be in memory. mu
// is held.
func (s *Session) noteStored(e *entry) {
	if !s.stored || e.message == nil {
		return
	}
	e.id = e.message.ID
	if s.conn == nil || s.out.memory.full(&s.engine.config) {
		s.evict(e)
	}
}

// evictAll evicts all stored messages. mu is held.
func (s *Session) evictAll() {
	if s.out.memory.bytes == 0 {
		return
	}
	for e := range s.out.all() {
		s.evict(e)
	}
}
