//go:build linux

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Flow is a load of publishers and subscribers that stay connected. Publisher p writes
// to topic p, subscriber s reads topic s, both modulo the topics. Without subscribers a
// message has arrived when the broker has received it.
type Flow struct {
	Publishers, Subscribers, Topics int

	// Name separates the topics and clients of a flow from those of others on the same
	// broker; empty is "load".
	Name string

	QoS    byte
	Window int  // bounds the messages of one publisher in flight
	Rate   int  // messages a second in all; 0 is unlimited
	Acked  bool // with a rate: measure acknowledgements instead of arrivals
	Keep   bool // subscribers have persistent sessions
	JSON   bool // payloads are JSON of about 150 bytes, instead of 64 bytes

	// Pings makes publishers of QoS 0 send a PINGREQ after every half window, to learn
	// that the broker has received their messages.
	Pings bool
	// Filter is the filter of all subscribers; if it is empty each subscribes to its
	// topic.
	Filter string

	// Paths is the number of topics below its own that a publisher cycles through; 0
	// means that it writes to its topic itself.
	Paths int
	// Username returns the username of a publisher; nil is the target's.
	Username func(publisher int) string
}

// stream is a Flow whose clients are connected.
type stream struct {
	Flow
	gauge       *gauge // of the messages within a stream; nil without one
	publishers  []*publisher
	subscribers []*subscriber
	readers     sync.WaitGroup
	ended       context.Context // its cause is the first error
	end         context.CancelCauseFunc
}

// Open connects subscribers first, so that they miss no message.
func (f Flow) Open(ctx context.Context, t Target) (Session, error) {
	s, err := f.open(ctx, t)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (f Flow) open(ctx context.Context, t Target) (*stream, error) {
	s := &stream{Flow: f}
	s.ended, s.end = context.WithCancelCause(ctx)
	if err := s.connect(t); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *stream) connect(t Target) error {
	for n := range s.Subscribers {
		sub, err := s.newSubscriber(t, n)
		if err != nil {
			return err
		}
		s.subscribers = append(s.subscribers, sub)
	}
	for n := range s.Publishers {
		p, err := s.newPublisher(t, n)
		if err != nil {
			return err
		}
		s.publishers = append(s.publishers, p)
	}
	for _, sub := range s.subscribers {
		sub.publishers = s.publishers
		s.readers.Go(func() { s.fail(sub.run()) })
	}
	for _, p := range s.publishers {
		s.readers.Go(func() { s.fail(p.run()) })
	}
	return nil
}

// errClosed is the cause of a closed session.
var errClosed = errors.New("the session was closed")

// Close closes the connections and waits for their readers.
func (s *stream) Close() error {
	s.end(errClosed)
	for _, sub := range s.subscribers {
		sub.Close()
	}
	for _, p := range s.publishers {
		p.Close()
	}
	s.readers.Wait()
	return nil
}

// fail ends the session. Only the first error is kept.
func (s *stream) fail(err error) {
	if err != nil {
		s.end(err)
	}
}

// Play makes every publisher send its share.
func (s *stream) Play(ctx context.Context, messages int) (Pass, error) {
	share := int64(max(1, messages/s.Publishers))
	began := time.Now()
	before := s.moved()
	stop := s.watch(ctx)
	for _, p := range s.publishers {
		p.goal += share
	}
	if s.Rate > 0 {
		s.pace(share)
	}
	var sending sync.WaitGroup
	for _, p := range s.publishers {
		sending.Go(func() { s.fail(p.play(s.ended, s.gauge)) })
	}
	sending.Wait()
	stop()
	pass := Pass{Delivered: s.moved() - before, Took: time.Since(began), Latencies: s.latencies()}
	if err := context.Cause(s.ended); err != nil {
		return pass, fmt.Errorf("%d messages came: %w", pass.Delivered, err)
	}
	return pass, nil
}

// moved returns how many messages have arrived, over all subscribers.
func (s *stream) moved() (n int) {
	for _, sub := range s.subscribers {
		n += int(sub.arrived.Load())
	}
	if s.Subscribers == 0 {
		for _, p := range s.publishers {
			n += int(p.acked.Load())
		}
	}
	return n
}

// watch ends the session when ctx is done, or when nothing has arrived for a while.
func (s *stream) watch(ctx context.Context) (stop func()) {
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		again := time.NewTicker(patience)
		defer again.Stop()
		for last := -1; ; {
			select {
			case <-done:
				return
			case <-ctx.Done():
				s.end(context.Cause(ctx))
			case <-again.C:
				now := s.moved() + int(s.gauge.passed())
				if now != last {
					last = now
					continue
				}
				s.end(errStuck)
			}
			s.hangUp()
			return
		}
	})
	return func() { close(done); watching.Wait() }
}

// hangUp unblocks publishers that wait for a broker that has stopped reading.
func (s *stream) hangUp() {
	for _, p := range s.publishers {
		p.Close()
	}
}

// latencies returns what subscribers or publishers have measured, and resets it.
func (s *stream) latencies() []time.Duration {
	var all []time.Duration
	for _, sub := range s.subscribers {
		all = append(all, sub.takeLatencies()...)
	}
	for _, p := range s.publishers {
		all = append(all, p.acks.take()...)
	}
	slices.Sort(all)
	return all
}

// filter returns the filter of subscriber n.
func (f Flow) filter(n int) string {
	switch {
	case f.Filter != "":
		return f.Filter
	case f.Paths > 0:
		return f.topic(n%f.Topics) + "/#"
	}
	return f.topic(n % f.Topics)
}

// topics returns the topics that publisher n cycles through.
func (f Flow) topics(n int) (list []string) {
	for path := range f.Paths {
		list = append(list, pathOf(f.topic(n%f.Topics), path))
	}
	if f.Paths == 0 {
		list = []string{f.topic(n % f.Topics)}
	}
	return list
}

func (f Flow) topic(n int) string { return fmt.Sprintf("bench/%s/%03d", cmp.Or(f.Name, "load"), n) }

// client returns the id of the n-th client of a kind.
func (f Flow) client(kind string, n int) string {
	if f.Name != "" {
		kind = f.Name + "-" + kind
	}
	return fmt.Sprintf("bench-%s-%d", kind, n)
}

// PathOf returns a topic below another one, of a Flow with Paths and without a name.
func PathOf(topic, path int) string { return pathOf(Flow{}.topic(topic), path) }

func pathOf(topic string, path int) string { return fmt.Sprintf("%s/machine/%04d/state", topic, path) }
