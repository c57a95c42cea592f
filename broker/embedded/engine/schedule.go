package engine

import (
	"container/heap"
	"sync"
	"time"
)

// schedule knows when sessions whose clients are away have something due: a
// Will, or their end. An entry that came to nothing, because the client is back,
// is passed over when its time comes.
type schedule struct {
	engine *Engine
	wake   chan struct{}
	done   chan struct{}

	mu    sync.Mutex // guards items; held for moments only
	items dueItems
}

type dueItem struct {
	at      int64 // epoch milliseconds
	session *Session
}

type dueItems []dueItem

func (d dueItems) Len() int           { return len(d) }
func (d dueItems) Less(i, j int) bool { return d[i].at < d[j].at }
func (d dueItems) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dueItems) Push(x any)        { *d = append(*d, x.(dueItem)) }
func (d *dueItems) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func newSchedule(e *Engine) *schedule {
	return &schedule{engine: e, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// schedule notes when something of a session whose client has gone is due.
func (e *Engine) schedule(s *Session) {
	s.mu.Lock()
	at, ok := s.nextDue()
	s.mu.Unlock()
	if ok {
		e.due.add(dueItem{at: at, session: s})
	}
}

// nextDue tells when the session is to be looked at. mu is held.
func (s *Session) nextDue() (at int64, ok bool) {
	if s.conn != nil || s.ended {
		return 0, false
	}
	if s.will != nil {
		at, ok = s.willDueAt, true
	}
	if ends, limited := s.endsAt(); limited && (!ok || ends < at) {
		at, ok = ends, true
	}
	return at, ok
}

// endsAt tells when the session expires. mu is held.
func (s *Session) endsAt() (at int64, limited bool) {
	return s.goneAt + 1000*int64(s.expiry), s.expiry != NeverExpires
}

func (d *schedule) add(item dueItem) {
	d.mu.Lock()
	heap.Push(&d.items, item)
	first := d.items[0] == item
	d.mu.Unlock()
	if first {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// run does what is due until the engine closes.
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
			d.engine.sweep()
		case <-d.done:
			return
		}
		for _, s := range d.take(d.engine.now()) {
			d.engine.attend(s)
		}
		timer.Reset(d.wait(d.engine.now()))
	}
}

func (d *schedule) stop() { close(d.done) }

// take gives the sessions that have something due.
func (d *schedule) take(now int64) (due []*Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.items) > 0 && d.items[0].at <= now {
		due = append(due, heap.Pop(&d.items).(dueItem).session)
	}
	return due
}

// wait is how long until the next is due. The clock may be set meanwhile; so it
// is looked at again after a minute.
func (d *schedule) wait(now int64) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.items) == 0 {
		return time.Minute
	}
	return min(time.Duration(d.items[0].at-now)*time.Millisecond, time.Minute)
}

// attend does what is due for a session: its Will, or its end.
func (e *Engine) attend(s *Session) {
	now := e.now()
	s.mu.Lock()
	at, ok := s.nextDue()
	if !ok || at > now {
		s.mu.Unlock()
		if ok {
			e.due.add(dueItem{at: at, session: s})
		}
		return
	}
	if ends, limited := s.endsAt(); limited && ends <= now {
		s.mu.Unlock()
		e.meters.expired.Add(1)
		e.end(s)
		return
	}
	will, rights := s.will, s.rights
	s.will, s.willDueAt = nil, 0
	changes := &Changes{Owed: true, PutSessions: []SessionRecord{s.record()}}
	s.mu.Unlock()
	e.publishWill(s, will, rights)
	e.store.Submit(changes)
	e.schedule(s)
}
