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

// batchSize is how many messages are processed at a time.
const batchSize = 256

// outputBuffer is the size in bytes of a buffer that outputs share. A reference
// to one of them keeps the whole buffer alive. maxOutput limits a single
// output, because a query may copy a payload many times.
const (
	outputBuffer = 16 << 10
	maxOutput    = 2 << 20
)

// The pauses between attempts to republish messages above QoS 0 while the
// broker cannot be reached.
const (
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// run processes the queue until it is empty.
func (s *stream) run() {
	defer s.queue.work.Done()
	w := workers.Get().(*worker) //nolint:forcetypeassert // it has no other type
	defer workers.Put(w)
	for list, more := s.queue.take(w.queueList); more; list, more = s.queue.take(w.queueList) {
		for at := 0; at < len(list); at += batchSize {
			w.work(s, list[at:min(at+batchSize, len(list))])
		}
		clear(list) // the messages are no longer needed
		w.queueList = list
	}
}

// worker has the buffers of a goroutine that processes the messages of a
// stream.
type worker struct {
	queueList []item                     // reused by the queue
	out       []messaging.Message        // results of the query
	sources   []messaging.CommitNotifier // of each in out; nil for none
	notifiers []messaging.CommitNotifier // those of out, and of filtered messages that are part of the stored state
	outputs   []byte                     // buffer that outputs share; they are never changed
}

// workers are those that are not in use.
var workers = sync.Pool{New: func() any { return new(worker) }}

// work transforms messages, submits them to the log and publishes them. Both
// happen in order of arrival.
func (w *worker) work(s *stream, list []item) {
	p := s.plan.Load()
	w.out, w.sources, w.notifiers = w.out[:0], w.sources[:0], w.notifiers[:0]
	w.transform(s, p, list)
	var j *join
	if p.Persist {
		j = w.persist(s, p)
	}
	if p.TargetTopic != "" && len(w.out) > 0 {
		s.republish(p, w.out, w.sources)
	}
	if j != nil {
		j.done(nil)
	} else {
		notifyAll(w.notifiers, nil)
	}
	clear(w.out)
	clear(w.sources)
	clear(w.notifiers)
}

// transform fills out with the results of the query.
func (w *worker) transform(s *stream, p *plan, list []item) {
	expected := min(s.longestOutput, outputBuffer)
	s.longestOutput = 0
	for i := range list {
		m, notifier := list[i].Message, list[i].notifier
		if messaging.Withdrawn(notifier) {
			notifier.Committed(nil)
			continue
		}
		if p.query != nil {
			if w.outputs == nil || len(w.outputs)+expected > outputBuffer {
				w.outputs = make([]byte, 0, min((len(list)-i)*expected, outputBuffer))
			}
			var v query.Verdict
			if m.Payload, v = w.apply(s, p, &m); v != query.Match {
				w.drop(s, p, v, notifier)
				continue
			}
		}
		w.out, w.sources = append(w.out, m), append(w.sources, notifier)
		if notifier != nil {
			w.notifiers = append(w.notifiers, notifier)
		}
	}
	w.outputs = nil // its memory belongs to the outputs now
}

// apply runs the query on a message.
func (w *worker) apply(s *stream, p *plan, m *messaging.Message) (output []byte, v query.Verdict) {
	start := len(w.outputs)
	if w.outputs, v, _ = p.apply(w.outputs, m); v != query.Match {
		return nil, v
	}
	s.longestOutput = max(s.longestOutput, len(w.outputs)-start)
	return w.outputs[start:len(w.outputs):len(w.outputs)], query.Match
}

// apply runs the query on a message and appends the output to dst. Without one it
// returns dst, and why there is none.
func (p *plan) apply(dst []byte, m *messaging.Message) (out []byte, v query.Verdict, why query.Cause) {
	out, v, why = p.query.Run(dst, m.Payload, m.At, p.state)
	if len(out)-len(dst) > maxOutput {
		return dst, query.Invalid, query.Cause{Reason: outputTooLong}
	}
	return out, v, why
}

// outputTooLong is the reason why a message has no output that is longer than
// maxOutput.
const outputTooLong query.Reason = "tooLong"

// drop counts a message that is filtered or invalid, and notifies its source.
// If a filtered message is part of a state that is stored, the source is
// notified when that is.
func (w *worker) drop(s *stream, p *plan, v query.Verdict, notifier messaging.CommitNotifier) {
	if v == query.Filtered {
		s.counters.filtered.Add(1)
	} else {
		s.counters.invalid.Add(1)
	}
	switch {
	case notifier == nil:
	case v == query.Filtered && p.state != nil && p.Persist:
		w.notifiers = append(w.notifiers, notifier)
	default:
		notifier.Committed(nil)
	}
}

// persist submits messages to the log, with the state of the query; without
// messages only a state that has changed. It returns the join that notifies the
// sources, which the caller must complete as well; nil if nothing was
// submitted.
func (w *worker) persist(s *stream, p *plan) *join {
	state := p.encodedState()
	if len(w.out) == 0 && (state == nil || bytes.Equal(state, s.lastState)) {
		return nil
	}
	s.lastState = state
	n, j := int64(len(w.out)), newJoin(w.notifiers)
	committed := func(err error) {
		s.persisted(n, err)
		j.done(err)
	}
	if err := s.messageLog.Append(context.Background(), w.out, state, committed); err != nil {
		committed(err)
	}
	return j
}

func (s *stream) persisted(n int64, err error) {
	if err != nil {
		s.counters.dropped.Add(n)
		return
	}
	s.counters.persisted.Add(n)
}

// republish publishes messages to the target. While the broker cannot be
// reached, those of QoS 0 are dropped; the others are retried until the stream
// was closed and its drain timeout has passed, while the queue fills. Those that are withdrawn meanwhile are left to the node that
// receives them then. The sources are as long as the list.
func (s *stream) republish(p *plan, list []messaging.Message, sources []messaging.CommitNotifier) {
	for i := range list {
		p.address(&list[i])
	}
	var serving context.Context
	if s.engine.serving != nil {
		serving, _ = messaging.ServingNow(s.engine.serving)
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		done, refused, err := s.engine.messaging.Publish(s.publishing, list)
		s.counters.republished.Add(int64(done - refused))
		s.counters.dropped.Add(int64(refused))
		if list, sources = list[done:], sources[done:]; len(list) == 0 {
			return
		}
		if broker.KindOf(err) == broker.Unavailable {
			list, sources = s.dropUndeliverable(list, sources, s.engine.serving != nil && (serving == nil || serving.Err() != nil))
		}
		if len(list) == 0 {
			return
		}
		if broker.KindOf(err) != broker.Unavailable || !s.pause(pause) {
			s.counters.dropped.Add(int64(len(list)))
			return
		}
	}
}

// address sets the topic and the QoS with which a message is published.
func (p *plan) address(m *messaging.Message) {
	m.Topic = p.TargetTopic
	if p.TargetQoS >= 0 {
		m.QoS = byte(p.TargetQoS)
	}
}

// pause waits before another attempt to publish, less when the stream is
// closed. It reports whether there is to be one.
func (s *stream) pause(d time.Duration) bool {
	until := s.lifetime
	if s.lifetime.Err() != nil {
		until, d = s.publishing, minPause
	}
	sleep(until, s.engine.host.clock, d)
	return s.publishing.Err() == nil
}

// dropUndeliverable returns the messages above QoS 0 that are not withdrawn, with their sources, and only those that have one if another
// node takes the messages, or did meanwhile: others would follow what that publishes. What is not withdrawn is counted as dropped.
func (s *stream) dropUndeliverable(list []messaging.Message, from []messaging.CommitNotifier, elsewhere bool) (kept []messaging.Message, sources []messaging.CommitNotifier) {
	kept, sources = list[:0], from[:0]
	for i, m := range list {
		switch {
		case messaging.Withdrawn(from[i]):
		case m.QoS == 0, elsewhere && from[i] == nil:
			s.counters.dropped.Add(1)
		default:
			kept, sources = append(kept, m), append(sources, from[i])
		}
	}
	return kept, sources
}

// notifyAll notifies all sources of the outcome.
func notifyAll(notifiers []messaging.CommitNotifier, err error) {
	for _, s := range notifiers {
		s.Committed(err)
	}
}

// join notifies sources when two operations are complete: the messages are
// stored, and published.
type join struct {
	notifiers []messaging.CommitNotifier
	pending   atomic.Int32
	err       error // why they are not stored
}

// newJoin returns a join. It copies the notifiers.
func newJoin(notifiers []messaging.CommitNotifier) *join {
	j := &join{notifiers: slices.Clone(notifiers)}
	j.pending.Store(2)
	return j
}

// done completes an operation. Only storing can fail.
func (j *join) done(err error) {
	if err != nil {
		j.err = err
	}
	if j.pending.Add(-1) == 0 {
		notifyAll(j.notifiers, j.err)
	}
}
