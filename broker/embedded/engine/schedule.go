package engine

import (
	"sync"
	"time"
)

// schedule has the times at which the Will or the expiry of sessions whose clients are away
// is due. A session is in it at most once. One whose client has returned is skipped when its
// time comes.
type schedule struct {
	engine *Engine
	wake   chan struct{}
	done   chan struct{}

	running sync.Mutex // held while sessions are run; the outermost lock

	mu    sync.Mutex // guards items, and scheduledAt of sessions; an innermost lock, held briefly
	items dueHeap[*Session]
}

// dueEntry returns the entry of the session in the schedule.
func (s *Session) dueEntry() *due { return &s.scheduled }

func newSchedule(e *Engine) *schedule {
	return &schedule{engine: e, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// schedule adds a session whose client is away to the schedule.
func (e *Engine) schedule(s *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.nextDue(); ok {
		e.scheduled.set(s, at)
	}
}

// nextDue returns when the Will or the expiry of the session is due. mu is held.
func (s *Session) nextDue() (at int64, ok bool) {
	if s.conn != nil || s.ended || s.transfer.moving {
		return 0, false
	}
	if s.will.record != nil {
		at, ok = s.will.dueAt, true
	}
	if ends, limited := s.endsAt(); limited && (!ok || ends < at) {
		at, ok = ends, true
	}
	return at, ok
}

// endsAt returns when the session expires. mu is held.
func (s *Session) endsAt() (at int64, limited bool) {
	return s.client.goneAt + 1000*int64(s.expiry), s.expiry != NeverExpires
}

// set sets the time of a session, which may be new in the schedule.
func (d *schedule) set(s *Session, at int64) {
	d.mu.Lock()
	isNext := d.items.set(s, at)
	d.mu.Unlock()
	if isNext {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// remove removes a session from the schedule.
func (d *schedule) remove(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.items.remove(s)
}

// run runs sessions when they are due, until the engine closes.
func (d *schedule) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	sweeping := time.NewTicker(sweepEvery)
	defer sweeping.Stop()
	for {
		select {
		case <-timer.C:
		case <-d.wake:
		case <-sweeping.C:
			d.sweep()
		case <-d.done:
			return
		}
		d.runDue()
		timer.Reset(d.wait(d.engine.now()))
	}
}

// runDue runs the sessions that are due.
func (d *schedule) runDue() {
	d.running.Lock()
	defer d.running.Unlock()
	for _, s := range d.take(d.engine.now()) {
		d.engine.runDue(s)
	}
}

func (d *schedule) sweep() {
	d.running.Lock()
	defer d.running.Unlock()
	d.engine.sweep()
}

// await waits until no session is being run.
func (d *schedule) await() {
	d.running.Lock()
	defer d.running.Unlock()
}

func (d *schedule) stop() { close(d.done) }

// take removes and returns the sessions that are due.
func (d *schedule) take(now int64) (due []*Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s, ok := d.items.next(now); ok; s, ok = d.items.next(now) {
		d.items.remove(s)
		due = append(due, s)
	}
	return due
}

// wait returns how long to wait for the next session.
func (d *schedule) wait(now int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.items.wait(now)
}

// runDue ends a session that has expired or publishes its Will if that is due, and schedules
// what is due later.
func (e *Engine) runDue(s *Session) {
	now := e.now()
	s.mu.Lock()
	at, ok := s.nextDue()
	if s.generation.isOver() { // its Will and its end are another server's
		s.mu.Unlock()
		return
	}
	if !ok || at > now {
		if ok {
			e.scheduled.set(s, at)
		}
		s.mu.Unlock()
		return
	}
	if ends, limited := s.endsAt(); limited && ends <= now {
		ended := s.conclude()
		s.mu.Unlock()
		e.meters.expired.Add(1)
		ended.complete()
		return
	}
	will, rights := s.will.record, s.rights
	s.dropWill()
	stored := s.stored
	s.mu.Unlock()
	pub := e.newPublication()
	if stored {
		pub.willOf = s
	}
	e.publishWill(s, will, rights, pub)
	e.schedule(s)
}
