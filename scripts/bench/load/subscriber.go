//go:build linux

package load

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// subscriber reads the numbered messages of all publishers of its topic.
type subscriber struct {
	*client
	number     int
	qos        byte
	timed      bool
	json       bool
	publishers []*publisher

	// Used by run only:
	next    []int64      // expected from each publisher
	done    []int64      // how many of each publisher's messages are complete
	touched []int        // publishers with complete messages since the last tell
	held    []unreleased // messages of QoS 2 that wait for their PUBREL, in order

	progress []atomic.Int64 // copy of done for the publishers
	arrived  atomic.Int64   // the sum of done

	mu   sync.Mutex // protects took
	took []time.Duration
}

// unreleased is a message of QoS 2 between PUBREC and PUBREL.
type unreleased struct {
	id        uint16
	publisher int
}

func (s *stream) newSubscriber(t Target, n int) (*subscriber, error) {
	c, err := dial(s.ended, cmp.Or(t.ReadAddr, t.Addr), t.login(s.client("sub", n), "", !s.Keep), nil, bufferSize)
	if err != nil {
		return nil, err
	}
	if err := c.subscribe(s.filter(n), s.QoS); err != nil {
		c.Close()
		return nil, err
	}
	return &subscriber{client: c, number: n, qos: s.QoS, timed: s.Rate > 0 && !s.Acked, json: s.JSON,
		next: make([]int64, s.Publishers), done: make([]int64, s.Publishers), progress: make([]atomic.Int64, s.Publishers)}, nil
}

// run reads until the connection ends. Acknowledgements are written together, when
// nothing more was read.
func (s *subscriber) run() error {
	var out []byte
	for {
		first, body, err := s.in.Next()
		if err != nil {
			return fmt.Errorf("subscriber %d: %w", s.number, err)
		}
		switch {
		case packet.Kind(first) == packet.Publish:
			if out, err = s.take(out, first, body); err != nil {
				return fmt.Errorf("subscriber %d: %w", s.number, err)
			}
		case first == packet.Pubrel && len(s.held) > 0 && s.held[0].id == packet.ReadID(body):
			out = packet.AppendAck(out, packet.Pubcomp, s.held[0].id)
			s.complete(s.held[0].publisher)
			s.held = s.held[1:]
		default:
			return fmt.Errorf("subscriber %d got packet %#x: %w", s.number, first, errWrong)
		}
		if s.in.More() {
			continue
		}
		if len(out) > 0 {
			if _, err := s.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
		s.publishProgress()
	}
}

// take checks a message and appends its acknowledgement. One of QoS 2 is complete at
// its PUBREL: until then the broker has more work with it, and more publishes would
// make it fall behind.
func (s *subscriber) take(out []byte, first byte, body []byte) ([]byte, error) {
	m, ok := packet.ReadPublish(first, body)
	if !ok || m.QoS != s.qos || m.Retain || m.Dup {
		return out, fmt.Errorf("PUBLISH %#x of %d bytes: %w", first, len(body), errWrong)
	}
	stamp, ok := readStamp(m.Payload, len(s.next), s.json)
	if !ok {
		return out, fmt.Errorf("a message on %s that was not sent: %w", m.Topic, errWrong)
	}
	if err := s.count(stamp); err != nil {
		return out, err
	}
	switch m.QoS {
	case 0:
		s.complete(stamp.publisher)
	case 1:
		out = packet.AppendAck(out, packet.Puback, m.ID)
		s.complete(stamp.publisher)
	case 2:
		out = packet.AppendAck(out, packet.Pubrec, m.ID)
		s.held = append(s.held, unreleased{m.ID, stamp.publisher})
	}
	return out, nil
}

// complete counts a complete message.
func (s *subscriber) complete(publisher int) {
	s.done[publisher]++
	s.arrived.Add(1)
	if !slices.Contains(s.touched, publisher) {
		s.touched = append(s.touched, publisher)
	}
}

// count compares a message with the expected one of its publisher.
func (s *subscriber) count(got stamp) error {
	switch want := s.next[got.publisher]; {
	case got.seq > want:
		return fmt.Errorf("messages %d to %d of publisher %d are lost, or late: %w", want, got.seq-1, got.publisher, errWrong)
	case got.seq < want:
		return fmt.Errorf("message %d of publisher %d came again, or late: %w", got.seq, got.publisher, errWrong)
	}
	s.next[got.publisher]++
	if s.timed {
		s.mu.Lock()
		s.took = append(s.took, time.Since(epoch)-got.sent)
		s.mu.Unlock()
	}
	return nil
}

// publishProgress publishes the progress to the publishers.
func (s *subscriber) publishProgress() {
	for _, p := range s.touched {
		s.progress[p].Store(s.done[p])
		s.publishers[p].signal(s.done[p])
	}
	s.touched = s.touched[:0]
}

func (s *subscriber) takeLatencies() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}
