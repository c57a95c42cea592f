package streams

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/streams/query"
)

// portion is how many messages are worked on at a time.
const portion = 256

// The room in bytes that outputs share, of which one that is kept keeps all; and
// the longest output: a query may copy a payload many times over.
const (
	sharedRoom = 16 << 10
	maxOutput  = 2 << 20
)

// The pauses before messages above QoS 0 are published again to a broker that
// was not reached.
const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// run works on the queue until there is nothing in it.
func (s *stream) run() {
	defer s.queue.work.Done()
	w := workers.Get().(*worker) //nolint:forcetypeassert // it has nothing else
	defer workers.Put(w)
	for {
		list, more := s.queue.take(w.spare)
		if !more {
			if cap(list) > cap(w.spare) {
				w.spare = list
			}
			return
		}
		for at := 0; at < len(list); at += portion {
			w.work(s, list[at:min(at+portion, len(list))])
		}
		clear(list) // the messages are no longer needed
		w.spare = list
	}
}

// worker is the room that a goroutine needs to work on a stream's messages.
type worker struct {
	spare    []item    // for the queue
	out      []Message // after the query
	settlers []Settler // of those in out and of no others
	longest  int       // output of the last portion
}

// workers are those that nobody uses.
var workers = sync.Pool{New: func() any { return new(worker) }}

// work transforms messages, hands them over to be kept and publishes them. The
// order in which that happens is the order in which they came.
func (w *worker) work(s *stream, list []item) {
	p := s.plan.Load()
	w.out, w.settlers = w.out[:0], w.settlers[:0]
	w.transform(s, p, list)
	if len(w.out) == 0 {
		return
	}
	j := newJoin(w.settlers)
	if p.Persist {
		w.persist(s, p, j)
	}
	if p.TargetTopic != "" {
		s.republish(p, w.out)
	}
	j.part(nil)
	clear(w.out)
	clear(w.settlers)
}

// transform fills out with what the query makes of messages. What it does not
// let through is settled at once.
func (w *worker) transform(s *stream, p *plan, list []item) {
	var room []byte // for outputs; some share it, none is changed
	expected := w.longest
	w.longest = 0
	for i := range list {
		m := list[i].Message
		if p.query != nil {
			if room == nil || len(room) > sharedRoom {
				room = make([]byte, 0, min((len(list)-i)*expected, sharedRoom+expected))
			}
			before := len(room)
			var v query.Verdict
			if room, v = p.query.Run(room, m.Payload, m.At, p.state); v == query.Match && len(room)-before > maxOutput {
				room, v = room[:before], query.Invalid
			}
			if v != query.Match {
				s.drop(v, list[i].settler)
				continue
			}
			m.Payload = room[before:len(room):len(room)]
			w.longest = max(w.longest, len(m.Payload))
		}
		w.out = append(w.out, m)
		if list[i].settler != nil {
			w.settlers = append(w.settlers, list[i].settler)
		}
	}
}

// drop counts a message that the query does not let through.
func (s *stream) drop(v query.Verdict, settler Settler) {
	if v == query.Filtered {
		s.meters.filtered.Add(1)
	} else {
		s.meters.invalid.Add(1)
	}
	if settler != nil {
		settler.Settled(nil)
	}
}

// persist hands messages over to be kept, together with the state of the query.
func (w *worker) persist(s *stream, p *plan, j *join) {
	var state []byte
	if p.state != nil {
		state = p.state.Append(nil)
	}
	n := int64(len(w.out))
	j.hold()
	err := s.kept.Append(context.Background(), w.out, state, func(err error) {
		s.persisted(n, err)
		j.part(err)
	})
	if err != nil {
		s.persisted(n, err)
		j.part(err)
	}
}

func (s *stream) persisted(n int64, err error) {
	if err != nil {
		s.meters.dropped.Add(n)
		return
	}
	s.meters.persisted.Add(n)
}

// republish publishes messages to the target. Where the broker is not reached,
// those of QoS 0 are lost; the others are tried again until the stream has ended
// and its leave time is over, while the queue fills.
func (s *stream) republish(p *plan, list []Message) {
	for i := range list {
		list[i].Topic = p.TargetTopic
		if p.TargetQoS >= 0 {
			list[i].QoS = byte(p.TargetQoS)
		}
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		done, refused, err := s.engine.messaging.Publish(s.send, list)
		s.meters.republished.Add(int64(done - refused))
		s.meters.dropped.Add(int64(refused))
		if list = list[done:]; len(list) == 0 {
			return
		}
		if broker.KindOf(err) == broker.Unavailable {
			list = s.insisted(list)
		}
		if len(list) == 0 {
			return
		}
		if broker.KindOf(err) != broker.Unavailable || !s.pause(pause) {
			s.meters.dropped.Add(int64(len(list)))
			return
		}
	}
}

// pause waits before a further attempt to publish, less when the stream ends. It
// tells whether there is to be one.
func (s *stream) pause(d time.Duration) bool {
	until := s.life
	if s.life.Err() != nil {
		until, d = s.send, minPause
	}
	rest(until, s.engine.host.clock, d)
	return s.send.Err() == nil
}

// insisted gives the messages above QoS 0; the others are lost.
func (s *stream) insisted(list []Message) []Message {
	kept := list[:0]
	for _, m := range list {
		if m.QoS > 0 {
			kept = append(kept, m)
		}
	}
	s.meters.dropped.Add(int64(len(list) - len(kept)))
	return kept
}

// join settles many messages when all has been done with them.
type join struct {
	settlers []Settler
	parts    atomic.Int32
	failed   atomic.Pointer[error]
}

// newJoin begins with one part. The settlers are copied.
func newJoin(settlers []Settler) *join {
	j := &join{}
	if len(settlers) > 0 {
		j.settlers = append(j.settlers, settlers...)
	}
	j.parts.Store(1)
	return j
}

func (j *join) hold() { j.parts.Add(1) }

func (j *join) part(err error) {
	if err != nil {
		j.failed.CompareAndSwap(nil, &err)
	}
	if j.parts.Add(-1) != 0 {
		return
	}
	var outcome error
	if failed := j.failed.Load(); failed != nil {
		outcome = *failed
	}
	for _, s := range j.settlers {
		s.Settled(outcome)
	}
}
