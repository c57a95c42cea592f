package engine

import (
	"sync"
	"time"

	"signalbox/broker/mqtt/packet"
)

// silent ends parked connections whose clients are silent for longer than their keep alive
// timeout [MQTT-3.1.2-22], or whose CONNECT does not arrive in time. Others have a read deadline.
type silent struct {
	engine *Engine
	wake   chan struct{}

	mu    sync.Mutex // guards what follows, and Conn.silence; an innermost lock, held briefly
	items dueHeap[*Conn]
	until int64 // epoch milliseconds until which run sleeps; 0 if it does not
}

// silentEvery is how often connections are looked at, in milliseconds: a timer for each would
// wake the processor for each.
const silentEvery = 100

// dueEntry returns the entry of the connection in silent.
func (c *Conn) dueEntry() *due { return &c.silence }

func newSilent(e *Engine) *silent { return &silent{engine: e, wake: make(chan struct{}, 1)} }

// watch sets how long a connection may be silent while it is parked, 0 for ever. Before CONNECT that
// is how long it may take, whatever the client sends.
func (s *silent) watch(c *Conn, limit time.Duration) {
	if limit == 0 {
		s.forget(c)
		return
	}
	s.mu.Lock()
	c.maxSilence = limit.Milliseconds()
	at := nextCheck(s.engine.now() + c.maxSilence)
	s.items.set(c, at)
	sooner := at < s.until
	s.mu.Unlock()
	if sooner {
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
	s.items.remove(c)
}

// run looks at connections until the engine closes.
func (s *silent) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.endOverdue())
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
func (s *silent) endOverdue() (wait time.Duration) {
	now := s.engine.now()
	overdue, wait := s.overdue(now)
	for _, c := range overdue {
		if !c.established.Load() {
			c.close(packet.ReasonUnspecified)
			continue
		}
		c.engine.config.Log.Debug("a connection broke the protocol", "remote", c.socket.Address, "reason", "keep alive timeout")
		c.end(packet.ReasonKeepAliveTimeout, false)
	}
	return wait
}

func (s *silent) overdue(now int64) (overdue []*Conn, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c, ok := s.items.next(now); ok; c, ok = s.items.next(now) {
		end := c.silentUntil(now)
		if end <= now {
			overdue = append(overdue, c)
			end = now + c.maxSilence // should it not end
		}
		s.items.set(c, nextCheck(end))
	}
	wait = s.items.wait(now)
	s.until = now + wait.Milliseconds()
	return overdue, wait
}

// silentUntil returns when the keep alive timeout of a connection ends if it stays silent. One
// that a goroutine of its own reads is not silent. silent.mu is held.
func (c *Conn) silentUntil(now int64) int64 {
	since := now
	if parked := c.parkedAt.Load(); parked > 0 {
		since = max(parked, c.active.Load())
	}
	return since + c.maxSilence
}
