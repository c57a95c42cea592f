package engine

import (
	"container/heap"
	"sync"
	"time"

	"signalbox/broker/mqtt/packet"
)

// silent ends parked connections whose clients are silent for longer than their keep alive
// timeout [MQTT-3.1.2-22]. Others have a read deadline.
type silent struct {
	engine *Engine
	wake   chan struct{}

	mu    sync.Mutex // guards items, and Conn.silence; an innermost lock, held briefly
	items silentHeap
}

// silence is the entry of a connection.
type silence struct {
	check int64 // epoch milliseconds at which the connection is looked at next
	place int   // counted from 1; 0 for none
}

// silentEvery is how often connections are looked at, in milliseconds: a timer for each would
// wake the processor for each.
const silentEvery = 100

// silentHeap is a heap of connections.
type silentHeap []*Conn

func (h silentHeap) Len() int           { return len(h) }
func (h silentHeap) Less(i, j int) bool { return h[i].silence.check < h[j].silence.check }
func (h silentHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].silence.place, h[j].silence.place = i+1, j+1
}

func (h *silentHeap) Push(x any) {
	c := x.(*Conn) //nolint:forcetypeassert // nothing else is pushed
	*h = append(*h, c)
	c.silence.place = len(*h)
}

func (h *silentHeap) Pop() any {
	n := len(*h) - 1
	last := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	last.silence.place = 0
	return last
}

func newSilent(e *Engine) *silent { return &silent{engine: e, wake: make(chan struct{}, 1)} }

// watch adds a connection, if it has a keep alive timeout.
func (s *silent) watch(c *Conn) {
	if c.in.idle == 0 {
		return
	}
	s.mu.Lock()
	c.silence.check = nextCheck(s.engine.now() + c.in.idle.Milliseconds())
	heap.Push(&s.items, c)
	first := s.items[0] == c
	s.mu.Unlock()
	if first {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// nextCheck rounds up to a multiple of silentEvery.
func nextCheck(at int64) int64 { return (at + silentEvery - 1) / silentEvery * silentEvery }

// forget removes a connection.
func (s *silent) forget(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.silence.place > 0 {
		heap.Remove(&s.items, c.silence.place-1)
	}
}

// run looks at connections until the engine closes.
func (s *silent) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if wait, more := s.endOverdue(); more {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.engine.stopped:
			return
		}
	}
}

// endOverdue ends connections that are silent for too long, and returns the time until the next
// ones must be looked at.
func (s *silent) endOverdue() (wait time.Duration, more bool) {
	now := s.engine.now()
	var overdue []*Conn
	s.mu.Lock()
	for len(s.items) > 0 && s.items[0].silence.check <= now {
		c := s.items[0]
		due := c.silentUntil(now)
		if due <= now {
			overdue = append(overdue, c)
			due = now + c.in.idle.Milliseconds() // should it not end
		}
		c.silence.check = nextCheck(due)
		heap.Fix(&s.items, 0)
	}
	if more = len(s.items) > 0; more {
		wait = time.Duration(s.items[0].silence.check-now) * time.Millisecond
	}
	s.mu.Unlock()
	for _, c := range overdue {
		c.engine.config.Log.Debug("a connection broke the protocol", "remote", c.socket.Address, "reason", "keep alive timeout")
		c.end(packet.ReasonKeepAliveTimeout, false)
	}
	return wait, more
}

// silentUntil returns when the keep alive timeout of a connection ends if it stays silent. One
// that a goroutine of its own reads is not silent.
func (c *Conn) silentUntil(now int64) int64 {
	since := now
	if parked := c.parkedAt.Load(); parked > 0 {
		since = max(parked, c.active.Load())
	}
	return since + c.in.idle.Milliseconds()
}
