package engine

import (
	"container/heap"
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
	items scheduleHeap
}

// scheduledAt is the entry of a session in the schedule.
type scheduledAt struct {
	at    int64 // epoch milliseconds
	place int   // in the schedule, counted from 1; 0 for none
}

// scheduleHeap is a heap of sessions.
type scheduleHeap []*Session

func (d scheduleHeap) Len() int           { return len(d) }
func (d scheduleHeap) Less(i, j int) bool { return d[i].scheduled.at < d[j].scheduled.at }
func (d scheduleHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].scheduled.place, d[j].scheduled.place = i+1, j+1
}

func (d *scheduleHeap) Push(x any) {
	s := x.(*Session) //nolint:forcetypeassert // nothing else is pushed
	*d = append(*d, s)
	s.scheduled.place = len(*d)
}

func (d *scheduleHeap) Pop() any {
	n := len(*d) - 1
	last := (*d)[n]
	(*d)[n] = nil
	*d = (*d)[:n]
	last.scheduled.place = 0
	return last
}

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
	s.scheduled.at = at
	if s.scheduled.place == 0 {
		heap.Push(&d.items, s)
	} else {
		heap.Fix(&d.items, s.scheduled.place-1)
	}
	first := d.items[0] == s
	d.mu.Unlock()
	if first {
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
	if s.scheduled.place > 0 {
		heap.Remove(&d.items, s.scheduled.place-1)
	}
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
	for len(d.items) > 0 && d.items[0].scheduled.at <= now {
		due = append(due, heap.Pop(&d.items).(*Session)) //nolint:forcetypeassert // nothing else is in it
	}
	return due
}

// wait returns how long until the next session is due, at most a minute, because the clock of
// the configuration may differ from the timer.
func (d *schedule) wait(now int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.items) == 0 {
		return time.Minute
	}
	return min(time.Duration(d.items[0].scheduled.at-now)*time.Millisecond, time.Minute)
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
