package streams

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams/query"
)

// stream is one stream in operation.
type stream struct {
	engine     *Engine
	log        *slog.Logger
	messageLog Log
	queue      queue
	counters   *counters
	plan       atomic.Pointer[plan]

	// The fields of the worker.
	lastState     []byte // that was appended to the log last
	longestOutput int    // of the last batch, in bytes

	lifetime       context.Context // until close; replays end with it
	endLifetime    context.CancelFunc
	publishing     context.Context // until drainTimeout after close
	stopPublishing context.CancelFunc

	mu       sync.Mutex     // guards the fields below; not held while calling out
	cancel   func()         // ends the subscription; nil without one
	running  *runningReplay // nil without a replay
	replays  sync.WaitGroup
	detached bool // must not subscribe again
}

// plan is the definition that is in force. It is immutable, except for the
// state of the query, which belongs to the worker.
type plan struct {
	Definition
	query *query.Query // nil if messages pass unchanged
	state *query.State // nil if the query has no aggregates
}

// counters count messages.
type counters struct {
	received, republished, persisted, replayed, filtered, invalid, dropped atomic.Int64
}

// open returns a stream that is not subscribed yet. The state of its query is
// the one that was stored last.
func (e *Engine) open(ctx context.Context, d Definition) (*stream, error) {
	q, err := query.Compile(d.Query)
	if err != nil {
		return nil, err
	}
	messageLog, err := e.host.store.Open(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	p := newPlan(d, q)
	if err := p.restoreState(ctx, messageLog); err != nil {
		return nil, errors.Join(err, messageLog.Close(ctx))
	}
	messageLog.SetTTL(d.TTL)
	c := e.host.config
	s := &stream{
		engine: e, log: e.log.With("stream", d.StreamName), messageLog: messageLog, counters: &counters{},
		queue: queue{messages: c.QueueMessages, bytes: int(c.QueueBytes)},
	}
	s.lifetime, s.endLifetime = context.WithCancel(context.Background())
	s.publishing, s.stopPublishing = context.WithCancel(context.Background())
	s.plan.Store(p)
	s.lastState = p.encodedState()
	return s, nil
}

// continueFrom continues, in a stream that was just opened, from the end of
// another one of the same definition.
func (s *stream) continueFrom(old *stream) {
	s.counters, s.lastState = old.counters, old.lastState
	s.plan.Store(old.plan.Load())
}

func newPlan(d Definition, q *query.Query) *plan {
	p := &plan{Definition: d}
	if d.Process && !q.Empty() {
		p.query = q
		if q.Stateful() {
			p.state = q.NewState()
		}
	}
	return p
}

// encodedState returns the stored form of the query's state, nil for none.
func (p *plan) encodedState() []byte {
	if p.state == nil {
		return nil
	}
	return p.state.Append(nil)
}

// restoreState restores the stored state, if it belongs to this query.
func (p *plan) restoreState(ctx context.Context, messageLog Log) error {
	if p.state == nil || !p.Persist {
		return nil
	}
	b, err := messageLog.State(ctx)
	if err != nil || b == nil {
		return err
	}
	if state, ok := p.query.Restore(b); ok {
		p.state = state
	}
	return nil
}

// attach subscribes the stream if it is active and not detached.
func (s *stream) attach() {
	d := s.plan.Load()
	s.mu.Lock()
	wanted := d.Active && !s.detached && s.cancel == nil
	s.mu.Unlock()
	if !wanted { // no race: attach and detach are called within Lifecycle.Change, or while loading
		return
	}
	cancel := s.engine.messaging.Subscribe(d.SourceTopic, s)
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
}

// unsubscribe ends the subscription for now.
func (s *stream) unsubscribe() {
	s.mu.Lock()
	cancel := s.cancel
	s.cancel = nil
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// detach ends the subscription for good, and stops the replay.
func (s *stream) detach() {
	s.mu.Lock()
	s.detached = true
	s.mu.Unlock()
	s.unsubscribe()
	s.stopReplay()
	s.queue.close()
}

// isDetached reports whether the stream was detached.
func (s *stream) isDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detached
}

// drainTimeout is how long a broker has to take the remaining messages of a
// stream that is closed.
const drainTimeout = 2 * time.Second

// close waits until all messages that were taken are processed and stored. It
// must be called after detach.
func (s *stream) close(ctx context.Context) {
	s.endLifetime()
	deadline := time.AfterFunc(drainTimeout, s.stopPublishing)
	s.queue.work.Wait()
	s.replays.Wait()
	deadline.Stop()
	s.stopPublishing()
	if err := s.messageLog.Close(ctx); err != nil {
		s.log.Warn("the log of a stream could not be closed", "error", err)
	}
}

// modify changes the definition. The state of a query that stays the same is
// kept.
func (s *stream) modify(d Definition, q *query.Query) {
	old := s.plan.Load()
	p := newPlan(d, q)
	if p.state != nil && old.state != nil && string(d.Query) == string(old.Query) {
		p.state = old.state
	}
	resubscribe := d.SourceTopic != old.SourceTopic || !d.Active
	if resubscribe {
		s.unsubscribe()
	}
	s.messageLog.SetTTL(d.TTL)
	s.plan.Store(p)
	s.attach()
}

// Keeps reports whether messages must be stored before they are acknowledged.
func (s *stream) Keeps() bool { return s.plan.Load().Persist }

// Take queues a message.
func (s *stream) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	m.Retain = false // as for a plain subscriber
	s.counters.received.Add(1)
	taken, wake := s.queue.put(m, notifier)
	if wake {
		go s.run()
	}
	if taken {
		return
	}
	s.counters.dropped.Add(1)
	if notifier != nil {
		notifier.Committed(errFull)
	}
}

// record returns the record of the stream as users see it.
func (s *stream) record() broker.Stream {
	r := s.plan.Load().Stream
	m, u := s.counters, s.messageLog.Usage()
	r.Stats = &broker.StreamStats{
		Received: m.received.Load(), Republished: m.republished.Load(), Persisted: m.persisted.Load(),
		Filtered: m.filtered.Load(), Invalid: m.invalid.Load(), Dropped: m.dropped.Load(),
		Evicted: u.Evicted, Expired: u.Expired, Messages: u.Messages, Bytes: u.Bytes,
	}
	r.Replay, r.Stats.Replayed = s.replayProgress()
	r.Replaying = r.Replay != nil
	if r.Active && s.engine.messaging.Refused(r.SourceTopic) {
		r.Error = "the broker does not let the user of its connection subscribe to the source topic, or too many sources overlap; see the log for details"
	}
	return r
}
