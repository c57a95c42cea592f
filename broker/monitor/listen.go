package monitor

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"signalbox/broker"
)

// messagesPerSecond is how many messages a stream has in a second. More cannot be read, and
// the others are only counted.
const messagesPerSecond = 50

// messageEvent is the type of the events of a MessageStream.
const messageEvent = "message"

// MessageStream is a stream of what is published to a broker, for one caller: at most 50
// messages a second, and the number of the others.
type MessageStream struct {
	events *Events
	caller string
	now    func() time.Time
	feed   broker.Feed
	ready  chan struct{}
	leave  sync.Once

	mu      sync.Mutex // guards what follows
	pending []broker.Event
	second  int64 // in which taken messages were taken
	taken   int
	skipped int
}

// Listen opens a stream of the messages of a broker whose topics any of the filters matches,
// for a caller. The context bounds only the call.
func (e *Events) Listen(ctx context.Context, b broker.Broker, caller string, filters []string, now func() time.Time) (*MessageStream, error) {
	s := &MessageStream{events: e, caller: caller, now: now, ready: make(chan struct{}, 1)}
	e.mu.Lock()
	err := e.reserve(caller)
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if s.feed, err = b.Listen(ctx, filters, s.take); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// Ready yields a value when there are events.
func (s *MessageStream) Ready() <-chan struct{} { return s.ready }

// Ended is closed when the broker is no longer listened to.
func (s *MessageStream) Ended() <-chan struct{} { return s.feed.Lost() }

// Close ends the stream. It may be called more than once.
func (s *MessageStream) Close() {
	s.leave.Do(func() {
		s.feed.Stop()
		s.release()
	})
}

func (s *MessageStream) release() {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	s.events.release(s.caller)
}

func (s *MessageStream) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// take keeps a message, or counts it if there are too many.
func (s *MessageStream) take(p broker.PublishedMessage) {
	at := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if second := at.Unix(); second != s.second {
		s.second, s.taken = second, 0
	}
	if s.taken >= messagesPerSecond || len(s.pending) >= 2*messagesPerSecond {
		if s.skipped++; s.skipped == 1 {
			time.AfterFunc(time.Second, s.signal)
		}
		return
	}
	m := broker.ReceivedMessage{Topic: p.Topic, Size: len(p.Payload), QoS: int(p.QoS), Retain: p.Retain, At: at.UnixMilli(), Omitted: p.Omitted}
	m.Payload, m.Encoding, m.Truncated = broker.ShowPayload(p.Payload, broker.PreviewLimit)
	if p.Properties != nil {
		m.Properties = p.Properties()
	}
	data, err := json.Marshal(m)
	if err != nil { // never: it is made of texts and numbers
		return
	}
	s.taken++
	s.pending = append(s.pending, broker.Event{Type: messageEvent, Data: data})
	s.signal()
}

// Take returns the pending events; before them, if messages were left out, one with their
// number.
func (s *MessageStream) Take() []broker.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.pending
	if s.skipped > 0 {
		events = append([]broker.Event{skippedEventOf(s.skipped)}, events...)
	}
	s.pending, s.skipped = nil, 0
	return events
}
