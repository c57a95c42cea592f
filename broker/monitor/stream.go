package monitor

import (
	"slices"
	"strconv"
	"sync"

	"signalbox/broker"
)

// Stream is a stream of events for one caller. It keeps the latest event of each type until
// it is taken; a caller that takes them late loses those before, and delays nothing.
type Stream struct {
	events *Events
	watch  *watch
	caller string
	wants  [typeCount]bool
	ready  chan struct{}
	ended  chan struct{}
	leave  sync.Once

	mu      sync.Mutex // guards what follows
	pending [typeCount][]byte
	skipped int
}

func newStream(e *Events, caller string, types []string) *Stream {
	s := &Stream{events: e, caller: caller, ready: make(chan struct{}, 1), ended: make(chan struct{})}
	for t, name := range EventTypes {
		s.wants[t] = slices.Contains(types, name)
	}
	return s
}

// Ready yields a value when there are events.
func (s *Stream) Ready() <-chan struct{} { return s.ready }

// Ended is closed when the broker was deleted, or can no longer be observed.
func (s *Stream) Ended() <-chan struct{} { return s.ended }

// Close ends the stream. It may be called more than once.
func (s *Stream) Close() { s.leave.Do(func() { s.events.leave(s) }) }

// offer replaces the event of a type.
func (s *Stream) offer(t eventType, data []byte) {
	s.mu.Lock()
	if s.pending[t] != nil {
		s.skipped++
	}
	s.pending[t] = data
	s.mu.Unlock()
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// Take returns the pending events, at most one of each type; before them, if some were lost,
// an event with their number.
func (s *Stream) Take() (events []broker.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skipped > 0 {
		events = append(events, skippedEventOf(s.skipped))
	}
	for t, data := range s.pending {
		if data != nil {
			events = append(events, broker.Event{Type: EventTypes[t], Data: data})
		}
	}
	s.pending, s.skipped = [typeCount][]byte{}, 0
	return events
}

// skippedEventOf returns the event that a stream has lost n others.
func skippedEventOf(n int) broker.Event {
	return broker.Event{Type: skippedEvent, Data: []byte(`{"` + skippedEvent + `":` + strconv.Itoa(n) + `}`)}
}
