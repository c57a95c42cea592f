package loadtest

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
	"time"

	"signalbox/broker/messaging"
)

// subscriber receives the messages of one publisher, or of all.
type subscriber struct {
	participant

	mu                       sync.Mutex // guards the fields below
	from                     []series   // by the number of the publisher
	received, repeated, late uint64
	last                     time.Duration // when the last message was received
	latency                  Histogram
}

// maxMissing bounds the numbers of a publisher that are remembered as not received yet. Those
// beyond are lost.
const maxMissing = 100_000

// series has the numbers that were received of a publisher.
type series struct {
	next    uint64
	missing map[uint64]struct{} // below next
}

// Keeps reports that nothing is to be durable before it is acknowledged.
func (s *subscriber) Keeps() bool { return false }

// Take counts a message.
func (s *subscriber) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	if notifier != nil {
		defer notifier.Committed(nil)
	}
	now := s.now()
	number, err := strconv.Atoi(strings.TrimPrefix(m.Topic, s.Topic+"/"))
	if err != nil || number < 0 || number >= len(s.from) || len(m.Payload) < MinSize {
		return // it is not one of this load
	}
	n, due := binary.BigEndian.Uint64(m.Payload), time.Duration(binary.BigEndian.Uint64(m.Payload[8:]))
	s.mu.Lock()
	defer s.mu.Unlock()
	first, late := s.from[number].receive(n)
	if !first {
		s.repeated++
		return
	}
	s.received++
	if late {
		s.late++
	}
	s.last = now
	s.latency.observe(now - due)
}

// receive records a number, and reports whether it is received for the first time, and after
// a greater one.
func (s *series) receive(n uint64) (first, late bool) {
	if n < s.next {
		_, first = s.missing[n]
		delete(s.missing, n)
		return first, first
	}
	for ; s.next < n && len(s.missing) < maxMissing; s.next++ {
		if s.missing == nil {
			s.missing = map[uint64]struct{}{}
		}
		s.missing[s.next] = struct{}{}
	}
	s.next = n + 1
	return true, false
}

// expected returns the number of messages that the subscribers should receive: of those that
// were acknowledged, at QoS 0 of those that were sent.
func (r *run) expected() (n uint64) {
	for i, p := range r.publishers {
		switch {
		case !r.Own:
			n += p.done * uint64(r.Subscribers)
		case i < r.Subscribers:
			n += p.done
		}
	}
	return n
}

func (r *run) received() (n uint64) {
	for _, s := range r.subscribers {
		s.mu.Lock()
		n += s.received
		s.mu.Unlock()
	}
	return n
}

// pollInterval is the time between two looks at what has arrived.
const pollInterval = 10 * time.Millisecond

// awaitArrival waits until what is expected has arrived, or nothing has for Patience.
func (r *run) awaitArrival(ctx context.Context) {
	expected := r.expected()
	for before, quiet := r.received(), time.Now(); before < expected && time.Since(quiet) < r.Patience; {
		if !messaging.Sleep(ctx, pollInterval) {
			return
		}
		if now := r.received(); now > before {
			before, quiet = now, time.Now()
		}
	}
}

// collect adds what all have counted to a result.
func (r *run) collect(result *Result) {
	for _, p := range r.publishers {
		result.Published += p.done
		result.Refused += p.refused
		result.GivenUp += p.givenUp
		result.Acknowledged.add(&p.acknowledged)
	}
	result.Expected = r.expected()
	for _, s := range r.subscribers {
		s.mu.Lock()
		result.Received += s.received
		result.Repeated += s.repeated
		result.Late += s.late
		result.Receiving = max(result.Receiving, s.last-r.start)
		result.Latency.add(&s.latency)
		s.mu.Unlock()
	}
}
