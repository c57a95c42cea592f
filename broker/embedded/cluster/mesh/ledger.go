package mesh

import (
	"runtime"
	"sync"
)

// ledger is what came from one incarnation of another node: which messages, and
// which of them are safe. It outlives connections, so that nothing that is sent
// again is delivered again.
type ledger struct {
	incarnation uint64
	wake        chan struct{} // there is something to be answered

	mu       sync.Mutex // guards what follows; an innermost lock, held for moments only
	received uint64     // number of the latest message
	safe     uint64     // all up to this number are
	pending  ring[*slot]
	troubles ring[trouble]
	dropped  uint64 // how many of the troubles there were are forgotten
	known    uint64 // number of the routes that were taken over
	busy     bool   // more is being received, so the answer can wait a moment
}

// slot is a message that is not safe yet. It becomes so when it was handed out
// and the engine says so.
type slot struct {
	ledger *ledger
	number uint64
	left   int
}

// trouble is a message that could not be stored or, with names, shared
// subscriptions of which nobody is left.
type trouble numbered

func newLedger(incarnation uint64) *ledger {
	return &ledger{incarnation: incarnation, wake: make(chan struct{}, 1)}
}

var slots = sync.Pool{New: func() any { return new(slot) }}

// note takes a message in. It gives nil for one that came before.
func (l *ledger) note(number uint64) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	if number <= l.received {
		return nil
	}
	s := slots.Get().(*slot) //nolint:forcetypeassert // nothing else is in it
	*s = slot{l, number, 2}
	l.received = number
	l.pending.push(s)
	for l.troubles.len() > 0 && l.troubles.at(0).number+maxWaiting < number {
		l.troubles.pop()
		l.dropped++
	}
	return s
}

// Settled is called by the engine when the message is stored as far as it must
// be, or cannot be.
func (s *slot) Settled(err error) {
	l := s.ledger
	l.mu.Lock()
	if err != nil {
		l.troubles.push(trouble{number: s.number})
	}
	wake := l.pass(s)
	l.mu.Unlock()
	if wake {
		l.rouse()
	}
}

// handed ends the handing out of a message, nobody being left of some shared
// subscriptions.
func (s *slot) handed(untaken []string) {
	l := s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(untaken) > 0 {
		l.troubles.push(trouble{s.number, untaken})
	}
	l.pass(s)
}

// pass notes one of the two that a message waits for. It tells whether there is
// something to be answered. mu is held.
func (l *ledger) pass(s *slot) bool {
	s.left--
	before := l.safe
	for l.pending.len() > 0 && (*l.pending.at(0)).left == 0 {
		done := l.pending.pop()
		l.safe = done.number
		slots.Put(done)
	}
	return l.safe != before && !l.busy
}

// receiving tells whether more is being received.
func (l *ledger) receiving(busy bool) {
	l.mu.Lock()
	l.busy = busy
	l.mu.Unlock()
	if !busy {
		l.rouse()
	}
}

func (l *ledger) rouse() { signal(l.wake) }

// answers is what one connection has been told.
type answers struct {
	troubles uint64 // how many there were
	safe     uint64
	known    uint64
}

// append encodes what a connection has not been told. Troubles come before what
// is safe, so that a message with one is never taken for delivered.
func (l *ledger) append(dst []byte, told *answers) []byte {
	runtime.Gosched() // more may be safe in a moment
	l.mu.Lock()
	defer l.mu.Unlock()
	told.troubles = max(told.troubles, l.dropped)
	for end := l.dropped + uint64(l.troubles.len()); told.troubles < end; told.troubles++ {
		t := l.troubles.at(int(told.troubles - l.dropped))
		kind := byte(frameRefused)
		if len(t.names) > 0 {
			kind = frameUntaken
		}
		dst = appendNumbered(dst, kind, numbered(*t))
	}
	if l.safe > told.safe {
		told.safe = l.safe
		dst = appendNumbered(dst, frameDone, numbered{number: l.safe})
	}
	if l.known > told.known {
		told.known = l.known
		dst = appendNumbered(dst, frameKnown, numbered{number: l.known})
	}
	return dst
}
