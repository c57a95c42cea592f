package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// campaign is a broker and its clients.
type campaign struct {
	server   *server
	expected *expectedState
	rng      *rand.Rand
	end      os.Signal    // with which the broker is ended
	quiesce  bool         // it is ended only when nothing is under way
	pause    *atomic.Bool // publishers send nothing new

	publishers        []*publisher
	retainedPublisher *publisher // of the retained messages
	subscribers       []*subscriber
	clients           sync.WaitGroup
	finish            chan struct{} // closed when publishers must send nothing new
	stay              chan struct{} // closed when subscribers must not disconnect any more
}

// newCampaign makes clients of every kind.
func newCampaign(s *server, seed uint64, end os.Signal) *campaign {
	qos := []byte{1, 2, 1, 2, 1} // of the publishers, the last of which sends retained messages
	c := &campaign{server: s, expected: newExpectedState(qos...), rng: rand.New(rand.NewPCG(seed, 0)), end: end,
		pause: new(atomic.Bool), finish: make(chan struct{}), stay: make(chan struct{})}
	for n, q := range qos {
		c.publishers = append(c.publishers, &publisher{server: s, expected: c.expected, number: n, name: fmt.Sprintf("publisher-%d", n),
			qos: q, rng: c.fork(), pause: c.pause, window: 10, gap: 2 * time.Millisecond, write: message.payload})
	}
	c.retainedPublisher = c.publishers[c.expected.retainedPublisher]
	c.retainedPublisher.retain = true
	c.subscribe("steady-2", 2)
	c.subscribe("steady-1", 1)
	c.subscribe("cut-2", 2, cut)
	c.subscribe("cut-1", 1, cut)
	c.subscribe("polite-2", 2, disconnect)
	c.subscribe("polite-1", 1, disconnect)
	c.subscribe("twice-2", 2, takeOver)
	c.subscribe("twice-1", 1, takeOver)
	c.subscribe("any-2", 2, cut, disconnect, takeOver)
	c.subscribe("few-2", 2, cut, disconnect, takeOver).five = 3
	c.subscribe("few-1", 1, cut, disconnect, takeOver).five = 3
	return c
}

// fork returns random numbers for another goroutine.
func (c *campaign) fork() *rand.Rand { return rand.New(rand.NewPCG(c.rng.Uint64(), c.rng.Uint64())) }

func (c *campaign) subscribe(name string, qos byte, modes ...leaveMode) *subscriber {
	s := newSubscriber(c.server, c.expected, name, qos, c.fork(), modes...)
	c.subscribers = append(c.subscribers, s)
	return s
}

// run keeps the clients at work while the broker is ended and started that many
// times, and then waits until everything that was acknowledged has been delivered.
func (c *campaign) run(t *testing.T, rounds int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer c.report(t)
	defer c.clients.Wait()
	defer cancel()
	if err := c.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.subscribers {
		c.clients.Go(func() { s.run(ctx, c.stay) })
	}
	for _, s := range c.subscribers {
		suite.WaitFor(t, s.name+" is subscribed", func() bool { return closed(s.subscribed) })
	}
	var publishing sync.WaitGroup
	for _, p := range c.publishers {
		publishing.Go(func() { p.run(ctx, c.finish) })
	}
	defer publishing.Wait()
	defer cancel()
	for round := range rounds {
		c.round(ctx, t, round)
	}
	close(c.finish)
	close(c.stay)
	c.awaitQuiescence(t)
	c.checkRetained(ctx, t, "at the end")
	cancel()
	publishing.Wait()
	c.clients.Wait()
	c.reconnect(t)
}

// round lets the clients work for a while, ends the broker and starts it again.
// Now and then a subscriber joins, or the broker is asked to end.
func (c *campaign) round(ctx context.Context, t *testing.T, round int) {
	if round%5 == 2 {
		late := c.subscribe(fmt.Sprintf("late-%d", round), byte(1+c.rng.IntN(2)), cut)
		c.clients.Go(func() { late.run(ctx, c.stay) })
	}
	work := time.NewTimer(time.Duration(20+c.rng.IntN(300)) * time.Millisecond)
	defer work.Stop()
	select {
	case <-work.C:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	if c.quiesce {
		c.pause.Store(true)
		c.awaitQuiescence(t)
		defer c.pause.Store(false)
	}
	end := c.end
	if c.rng.IntN(6) == 0 {
		end = syscall.SIGTERM
	}
	if err := c.server.end(end); err != nil {
		t.Fatal(err)
	}
	if err := c.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	c.checkRetained(ctx, t, fmt.Sprintf("after end %d", round+1))
	if t.Failed() || len(c.expected.reported()) > 0 {
		t.Fatalf("in round %d, life %d of the broker", round+1, round+2)
	}
}

// checkRetained compares the retained messages with what was acknowledged before
// they were requested, and sent until they came.
func (c *campaign) checkRetained(ctx context.Context, t *testing.T, when string) {
	acked, _ := c.expected.progress(c.retainedPublisher.number)
	covered := func(got map[int]message) bool {
		_, sent := c.expected.progress(c.retainedPublisher.number) // one may have been cleared before it was requested
		for k := range retainedTopics {
			if _, is := got[k]; !is && checkRetained(k, nil, acked, sent) != "" {
				return false
			}
		}
		return true
	}
	got, err := readRetained(ctx, c.server, "reader", covered)
	if err != nil {
		t.Fatalf("read the retained messages %s: %v", when, err)
	}
	_, sent := c.expected.progress(c.retainedPublisher.number)
	for k := range retainedTopics {
		var m *message
		if one, is := got[k]; is {
			m = &one
		}
		if wrong := checkRetained(k, m, acked, sent); wrong != "" {
			c.expected.report("%s: %s (%d acknowledged, %d sent)", when, wrong, acked, sent)
		}
	}
}

func (c *campaign) allAcknowledged() bool {
	for p := range c.publishers {
		if acked, sent := c.expected.progress(p); acked < sent {
			return false
		}
	}
	return true
}

// awaitQuiescence waits until everything sent is acknowledged and delivered.
func (c *campaign) awaitQuiescence(t *testing.T) {
	t.Helper()
	for _, s := range c.subscribers {
		suite.WaitFor(t, s.name+" is subscribed", func() bool { return closed(s.subscribed) })
	}
	suite.WaitFor(t, "everything sent is acknowledged", c.allAcknowledged)
	c.awaitDeliveries(t)
}

// awaitDeliveries waits until every subscriber has received everything and has nothing
// in flight. It waits as long as more is delivered.
func (c *campaign) awaitDeliveries(t *testing.T) {
	t.Helper()
	for last, deadline := -1, time.Now(); ; pollPause(t) {
		left := 0
		for _, s := range c.subscribers {
			n, _, rests := s.missing()
			if left += n; !rests {
				left++
			}
		}
		if left == 0 {
			return
		}
		if left != last {
			last, deadline = left, time.Now().Add(suite.HangLimit/3)
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, s := range c.subscribers {
		if n, first, rests := s.missing(); n > 0 || !rests {
			c.expected.report("%s has not received %d messages, the first is %v; idle: %t", s.name, n, first, rests)
		}
	}
}

// reconnect connects every subscriber once more: nothing may be delivered, because the
// broker has processed all acknowledgements.
func (c *campaign) reconnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var looking sync.WaitGroup
	for _, s := range c.subscribers {
		looking.Go(func() { s.run(ctx, c.stay) })
	}
	looking.Wait()
}

// pollPause waits for a moment, or for the end of the test.
func pollPause(t *testing.T) {
	wait := time.NewTimer(2 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-t.Context().Done():
	}
}

// report fails the test with all violations, and logs what was done.
func (c *campaign) report(t *testing.T) {
	t.Helper()
	for _, violation := range slices.Compact(c.expected.reported()) {
		t.Error(violation)
	}
	var came int
	for _, s := range c.subscribers {
		s.mu.Lock()
		for _, from := range s.record.deliveries {
			came += len(from)
		}
		s.mu.Unlock()
	}
	t.Logf("%d messages published, %d deliveries to %d subscribers, %d lives of the broker",
		sum(c.expected.sentUpTo()), came, len(c.subscribers), c.server.gate.life)
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
