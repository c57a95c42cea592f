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

// campaign is a broker, its clients, and the end of their patience.
type campaign struct {
	server *server
	ledger *ledger
	dice   *rand.Rand
	end    os.Signal    // with which the broker is ended
	gently bool         // it is ended only when nothing is under way
	pause  *atomic.Bool // publishers send nothing new

	publishers  []*publisher
	keeper      *publisher // of the retained messages
	subscribers []*subscriber
	clients     sync.WaitGroup
	finish      chan struct{} // closed when publishers shall send nothing new
	calm        chan struct{} // closed when subscribers shall leave no more
}

// newCampaign makes clients of every kind.
func newCampaign(s *server, seed uint64, end os.Signal) *campaign {
	qos := []byte{1, 2, 1, 2, 1} // of the publishers, the last of which is the keeper
	c := &campaign{server: s, ledger: newLedger(qos...), dice: rand.New(rand.NewPCG(seed, 0)), end: end,
		pause: new(atomic.Bool), finish: make(chan struct{}), calm: make(chan struct{})}
	for n, q := range qos {
		c.publishers = append(c.publishers, &publisher{server: s, ledger: c.ledger, number: n, name: fmt.Sprintf("publisher-%d", n),
			qos: q, dice: c.fork(), pause: c.pause, window: 10, gap: 2 * time.Millisecond, write: message.payload})
	}
	c.keeper = c.publishers[c.ledger.keeper]
	c.keeper.retain = true
	c.subscribe("steady-2", 2)
	c.subscribe("steady-1", 1)
	c.subscribe("cut-2", 2, cut)
	c.subscribe("cut-1", 1, cut)
	c.subscribe("polite-2", 2, goodbye)
	c.subscribe("polite-1", 1, goodbye)
	c.subscribe("twice-2", 2, takeOver)
	c.subscribe("twice-1", 1, takeOver)
	c.subscribe("any-2", 2, cut, goodbye, takeOver)
	c.subscribe("few-2", 2, cut, goodbye, takeOver).five = 3
	c.subscribe("few-1", 1, cut, goodbye, takeOver).five = 3
	return c
}

// fork gives dice for another goroutine.
func (c *campaign) fork() *rand.Rand { return rand.New(rand.NewPCG(c.dice.Uint64(), c.dice.Uint64())) }

func (c *campaign) subscribe(name string, qos byte, habits ...leaving) *subscriber {
	s := newSubscriber(c.server, c.ledger, name, qos, c.fork(), habits...)
	c.subscribers = append(c.subscribers, s)
	return s
}

// play has the clients at work while the broker is ended and started that many
// times, and then waits until everything that was promised is kept.
func (c *campaign) play(t *testing.T, rounds int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer c.report(t)
	defer c.clients.Wait()
	defer cancel()
	if err := c.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.subscribers {
		c.clients.Go(func() { s.run(ctx, c.calm) })
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
	close(c.calm)
	c.settle(t)
	c.checkShelves(ctx, t, "at the end")
	cancel()
	publishing.Wait()
	c.clients.Wait()
	c.lookAgain(t)
}

// round lets everybody work for a while, ends the broker and starts it again.
// Now and then a subscriber joins, or the broker is ended politely.
func (c *campaign) round(ctx context.Context, t *testing.T, round int) {
	if round%5 == 2 {
		late := c.subscribe(fmt.Sprintf("late-%d", round), byte(1+c.dice.IntN(2)), cut)
		c.clients.Go(func() { late.run(ctx, c.calm) })
	}
	work := time.NewTimer(time.Duration(20+c.dice.IntN(300)) * time.Millisecond)
	defer work.Stop()
	select {
	case <-work.C:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	if c.gently {
		c.pause.Store(true)
		c.settle(t)
		defer c.pause.Store(false)
	}
	end := c.end
	if c.dice.IntN(6) == 0 {
		end = syscall.SIGTERM
	}
	if err := c.server.end(end); err != nil {
		t.Fatal(err)
	}
	if err := c.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	c.checkShelves(ctx, t, fmt.Sprintf("after end %d", round+1))
	if t.Failed() || len(c.ledger.complained()) > 0 {
		t.Fatalf("in round %d, life %d of the broker", round+1, round+2)
	}
}

// checkShelves holds the retained messages against what was acknowledged before
// they were asked for, and sent until they came.
func (c *campaign) checkShelves(ctx context.Context, t *testing.T, when string) {
	acked, _ := c.ledger.extent(c.keeper.number)
	covered := func(got map[int]message) bool {
		_, sent := c.ledger.extent(c.keeper.number) // one may have been cleared before it was asked for
		for k := range shelves {
			if _, is := got[k]; !is && judgeShelf(k, nil, acked, sent) != "" {
				return false
			}
		}
		return true
	}
	got, err := readShelves(ctx, c.server, "reader", covered)
	if err != nil {
		t.Fatalf("read the retained messages %s: %v", when, err)
	}
	_, sent := c.ledger.extent(c.keeper.number)
	for k := range shelves {
		var m *message
		if one, is := got[k]; is {
			m = &one
		}
		if wrong := judgeShelf(k, m, acked, sent); wrong != "" {
			c.ledger.complain("%s: %s (%d acknowledged, %d sent)", when, wrong, acked, sent)
		}
	}
}

func (c *campaign) allAcknowledged() bool {
	for p := range c.publishers {
		if acked, sent := c.ledger.extent(p); acked < sent {
			return false
		}
	}
	return true
}

// settle waits until everything sent is acknowledged and has come.
func (c *campaign) settle(t *testing.T) {
	t.Helper()
	for _, s := range c.subscribers {
		suite.WaitFor(t, s.name+" is subscribed", func() bool { return closed(s.subscribed) })
	}
	suite.WaitFor(t, "everything sent is acknowledged", c.allAcknowledged)
	c.awaitAll(t)
}

// awaitAll waits until every subscriber has everything and is at rest. As long
// as something comes, it waits on.
func (c *campaign) awaitAll(t *testing.T) {
	t.Helper()
	for last, deadline := -1, time.Now(); ; tick(t) {
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
			c.ledger.complain("%s misses %d messages, the first is %v; at rest: %t", s.name, n, first, rests)
		}
	}
}

// lookAgain connects every subscriber once more: nothing may come, because the
// broker has dealt with all acknowledgements.
func (c *campaign) lookAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var looking sync.WaitGroup
	for _, s := range c.subscribers {
		looking.Go(func() { s.run(ctx, c.calm) })
	}
	looking.Wait()
}

// tick waits for a moment, or for the end of the test.
func tick(t *testing.T) {
	wait := time.NewTimer(2 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-t.Context().Done():
	}
}

// report has the test fail with all complaints, and tells what was done.
func (c *campaign) report(t *testing.T) {
	t.Helper()
	for _, complaint := range slices.Compact(c.ledger.complained()) {
		t.Error(complaint)
	}
	var came int
	for _, s := range c.subscribers {
		s.mu.Lock()
		for _, from := range s.record.came {
			came += len(from)
		}
		s.mu.Unlock()
	}
	t.Logf("%d messages published, %d deliveries to %d subscribers, %d lives of the broker",
		sum(c.ledger.sentUpTo()), came, len(c.subscribers), c.server.gate.life)
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}
