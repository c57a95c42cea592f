package streams

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
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
	for list, more := s.queue.take(w.spare); more; list, more = s.queue.take(w.spare) {
		for at := 0; at < len(list); at += portion {
			w.work(s, list[at:min(at+portion, len(list))])
		}
		clear(list) // the messages are no longer needed
		w.spare = list
	}
}

// worker is the room that a goroutine needs to work on a stream's messages.
type worker struct {
	spare     []item                     // for the queue
	out       []messaging.Message        // after the query
	notifiers []messaging.CommitNotifier // of those in out, and of those that only the state tells of
	room      []byte                     // for outputs; some share it, none is changed
}

// workers are those that nobody uses.
var workers = sync.Pool{New: func() any { return new(worker) }}

// work transforms messages, hands them over to be kept and publishes them. The
// order in which that happens is the order in which they came.
func (w *worker) work(s *stream, list []item) {
	p := s.plan.Load()
	w.out, w.notifiers = w.out[:0], w.notifiers[:0]
	w.transform(s, p, list)
	var kept *join
	if p.Persist {
		kept = w.persist(s, p)
	}
	if p.TargetTopic != "" && len(w.out) > 0 {
		s.republish(p, w.out)
	}
	if kept != nil {
		kept.part(nil)
	} else {
		settle(w.notifiers, nil)
	}
	clear(w.out)
	clear(w.notifiers)
}

// transform fills out with what the query makes of messages.
func (w *worker) transform(s *stream, p *plan, list []item) {
	expected := min(s.longest, sharedRoom)
	s.longest = 0
	for i := range list {
		m, notifier := list[i].Message, list[i].notifier
		if p.query != nil {
			if w.room == nil || len(w.room)+expected > sharedRoom {
				w.room = make([]byte, 0, min((len(list)-i)*expected, sharedRoom))
			}
			var v query.Verdict
			if m.Payload, v = w.apply(s, p, &m); v != query.Match {
				w.drop(s, p, v, notifier)
				continue
			}
		}
		w.out = append(w.out, m)
		if notifier != nil {
			w.notifiers = append(w.notifiers, notifier)
		}
	}
	w.room = nil // it is the outputs' now
}

// apply runs the query on a message.
func (w *worker) apply(s *stream, p *plan, m *messaging.Message) (output []byte, v query.Verdict) {
	before := len(w.room)
	if w.room, v = p.query.Run(w.room, m.Payload, m.At, p.state); v != query.Match {
		return nil, v
	}
	n := len(w.room) - before
	if n > maxOutput {
		w.room = nil
		return nil, query.Invalid
	}
	s.longest = max(s.longest, n)
	return w.room[before:len(w.room):len(w.room)], query.Match
}

// drop counts a message that the query does not let through, and settles it. One
// that it counted, and whose state is kept, is settled with that.
func (w *worker) drop(s *stream, p *plan, v query.Verdict, notifier messaging.CommitNotifier) {
	if v == query.Filtered {
		s.meters.filtered.Add(1)
	} else {
		s.meters.invalid.Add(1)
	}
	switch {
	case notifier == nil:
	case v == query.Filtered && p.state != nil && p.Persist:
		w.notifiers = append(w.notifiers, notifier)
	default:
		notifier.Committed(nil)
	}
}

// persist hands messages over to be kept, together with the state of the query;
// without messages only a state that has changed. It gives what settles them,
// where the caller has a part in; nil where nothing was handed over.
func (w *worker) persist(s *stream, p *plan) *join {
	state := p.encoded()
	if len(w.out) == 0 && (state == nil || bytes.Equal(state, s.handed)) {
		return nil
	}
	s.handed = state
	n, j := int64(len(w.out)), newJoin(w.notifiers)
	stored := func(err error) {
		s.persisted(n, err)
		j.part(err)
	}
	if err := s.kept.Append(context.Background(), w.out, state, stored); err != nil {
		stored(err)
	}
	return j
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
func (s *stream) republish(p *plan, list []messaging.Message) {
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
func (s *stream) insisted(list []messaging.Message) []messaging.Message {
	kept := list[:0]
	for _, m := range list {
		if m.QoS > 0 {
			kept = append(kept, m)
		}
	}
	s.meters.dropped.Add(int64(len(list) - len(kept)))
	return kept
}

// settle tells all what became of their messages.
func settle(notifiers []messaging.CommitNotifier, err error) {
	for _, s := range notifiers {
		s.Committed(err)
	}
}

// join settles messages when two parts are done: they are stored, and published.
type join struct {
	notifiers []messaging.CommitNotifier
	parts     atomic.Int32
	err       error // why they are not stored
}

// newJoin begins a join. The notifiers are copied.
func newJoin(notifiers []messaging.CommitNotifier) *join {
	j := &join{notifiers: slices.Clone(notifiers)}
	j.parts.Store(2)
	return j
}

// part ends a part; only that of being stored can fail.
func (j *join) part(err error) {
	if err != nil {
		j.err = err
	}
	if j.parts.Add(-1) == 0 {
		settle(j.notifiers, j.err)
	}
}
