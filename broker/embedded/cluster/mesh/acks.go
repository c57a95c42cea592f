package mesh

import (
	"runtime"
	"sync"
)

// ackTracker records which messages of one incarnation of a peer were received, and which of
// them are stored. It outlives connections, so that a repeated message is not delivered again.
type ackTracker struct {
	incarnation uint64
	wake        chan struct{} // there is something to acknowledge

	mu         sync.Mutex // guards what follows; a leaf lock, held briefly
	received   uint64     // number of the latest message
	stored     uint64     // all messages up to this number are stored
	pending    ring[*pendingMessage]
	rejections ring[rejection]
	forgotten  uint64 // number of rejections removed from the ring
	routes     uint64 // version of the routes applied
	receiving  bool   // more is being received: acknowledgements can wait
}

// pendingMessage is a message that is not stored yet. It is stored when it was delivered and
// the engine reports so.
type pendingMessage struct {
	acks   *ackTracker
	number uint64
	events int
}

// rejection is a message that could not be stored or, with names, shared subscriptions without
// a member.
type rejection ackFrame

func newAckTracker(incarnation uint64) *ackTracker {
	return &ackTracker{incarnation: incarnation, wake: make(chan struct{}, 1)}
}

var pendingPool = sync.Pool{New: func() any { return new(pendingMessage) }}

// add records a received message. It returns nil for a duplicate.
func (l *ackTracker) add(number uint64) *pendingMessage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number <= l.received {
		return nil
	}
	s := pendingPool.Get().(*pendingMessage) //nolint:forcetypeassert // the pool has nothing else
	*s = pendingMessage{l, number, 2}
	l.received = number
	l.pending.push(s)
	for l.rejections.len() > 0 && l.rejections.at(0).number+maxWaiting < number {
		l.rejections.pop()
		l.forgotten++
	}
	return s
}

// Committed is called by the engine when the message is stored as required, or cannot be.
func (s *pendingMessage) Committed(err error) {
	l := s.acks
	l.mu.Lock()
	if err != nil {
		l.rejections.push(rejection{number: s.number})
	}
	wake := l.advance(s)
	l.mu.Unlock()
	if wake {
		l.notifySender()
	}
}

// delivered records that a message was passed to the engine, and the shared subscriptions that
// have no member here.
func (s *pendingMessage) delivered(withoutMember []string) {
	l := s.acks
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(withoutMember) > 0 {
		l.rejections.push(rejection{s.number, withoutMember})
	}
	l.advance(s)
}

// advance records one of the two events of a message. It reports whether there is something to
// acknowledge now. l.mu must be held.
func (l *ackTracker) advance(s *pendingMessage) bool {
	s.events--
	before := l.stored
	for l.pending.len() > 0 && (*l.pending.at(0)).events == 0 {
		done := l.pending.pop()
		l.stored = done.number
		pendingPool.Put(done)
	}
	return l.stored != before && !l.receiving
}

// setReceiving records whether more is being received.
func (l *ackTracker) setReceiving(receiving bool) {
	l.mu.Lock()
	l.receiving = receiving
	l.mu.Unlock()
	if !receiving {
		l.notifySender()
	}
}

func (l *ackTracker) notifySender() { notify(l.wake) }

// sentAcks is what was sent on one connection.
type sentAcks struct {
	rejections uint64 // counted from the first
	stored     uint64
	routes     uint64
}

// appendTo encodes what a connection was not sent yet. Rejections come first, so that a
// rejected message is never taken for delivered.
func (l *ackTracker) appendTo(dst []byte, sent *sentAcks) []byte {
	runtime.Gosched() // more may be stored in a moment
	l.mu.Lock()
	defer l.mu.Unlock()
	sent.rejections = max(sent.rejections, l.forgotten)
	for end := l.forgotten + uint64(l.rejections.len()); sent.rejections < end; sent.rejections++ {
		t := l.rejections.at(int(sent.rejections - l.forgotten))
		kind := byte(frameRefused)
		if len(t.names) > 0 {
			kind = frameNoMember
		}
		dst = appendAck(dst, kind, ackFrame(*t))
	}
	if l.stored > sent.stored {
		sent.stored = l.stored
		dst = appendAck(dst, frameStored, ackFrame{number: l.stored})
	}
	if l.routes > sent.routes {
		sent.routes = l.routes
		dst = appendAck(dst, frameRoutesAck, ackFrame{number: l.routes})
	}
	return dst
}
