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

// stream is one stream at work.
type stream struct {
	engine *Engine
	log    *slog.Logger
	kept   Log
	queue  queue
	meters *meters
	plan   atomic.Pointer[plan]

	// What follows is the working goroutine's.
	handed  []byte // the state that was handed to the log last
	longest int    // output of the last portion, in bytes

	life context.Context // ends with close; replays end with it
	end  context.CancelFunc
	send context.Context // ends publishing, leaveTime later
	stop context.CancelFunc

	mu       sync.Mutex // guards what follows; not held while calling out
	cancel   func()     // ends the subscription; nil for none
	running  *running   // the replay; nil for none
	replays  sync.WaitGroup
	detached bool // never to subscribe again
}

// plan is what a stream is to do. It is never changed, but for the state of its
// query, which is the working goroutine's.
type plan struct {
	Definition
	query *query.Query // nil where messages pass as they are
	state *query.State // nil where it keeps none
}

// meters count messages.
type meters struct {
	received, republished, persisted, replayed, filtered, invalid, dropped atomic.Int64
}

// open makes a stream of a definition, which does not take messages yet. The
// state of its query is the one that was kept last.
func (e *Engine) open(ctx context.Context, d Definition) (*stream, error) {
	q, err := query.Compile(d.Query)
	if err != nil {
		return nil, err
	}
	kept, err := e.host.store.Open(ctx, d.ID)
	if err != nil {
		return nil, err
	}
	p := newPlan(d, q)
	if err := p.restore(ctx, kept); err != nil {
		return nil, errors.Join(err, kept.Close(ctx))
	}
	kept.SetTTL(d.TTL)
	c := e.host.config
	s := &stream{
		engine: e, log: e.log.With("stream", d.StreamName), kept: kept, meters: &meters{},
		queue: queue{messages: c.QueueMessages, bytes: int(c.QueueBytes)},
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.send, s.stop = context.WithCancel(context.Background())
	s.plan.Store(p)
	s.handed = p.encoded()
	return s, nil
}

// goOn has a stream that was opened just now go on from where another one of the
// same definition ended.
func (s *stream) goOn(old *stream) {
	s.meters, s.handed = old.meters, old.handed
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

// encoded gives the state of the query as it is kept, nil for none.
func (p *plan) encoded() []byte {
	if p.state == nil {
		return nil
	}
	return p.state.Append(nil)
}

// restore takes over the state that was kept, if it is of this query.
func (p *plan) restore(ctx context.Context, kept Log) error {
	if p.state == nil || !p.Persist {
		return nil
	}
	b, err := kept.State(ctx)
	if err != nil || b == nil {
		return err
	}
	if state, ok := p.query.Restore(b); ok {
		p.state = state
	}
	return nil
}

// attach has the stream take messages, if it is to.
func (s *stream) attach() {
	d := s.plan.Load()
	s.mu.Lock()
	wanted := d.Active && !s.detached && s.cancel == nil
	s.mu.Unlock()
	if !wanted { // attach and detach are called within Lifecycle.Change, or while loading
		return
	}
	cancel := s.engine.messaging.Subscribe(d.SourceTopic, s)
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
}

// unsubscribe has the stream take no more messages for now.
func (s *stream) unsubscribe() {
	s.mu.Lock()
	cancel := s.cancel
	s.cancel = nil
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// detach is unsubscribe for good, and ends the replay.
func (s *stream) detach() {
	s.mu.Lock()
	s.detached = true
	s.mu.Unlock()
	s.unsubscribe()
	s.stopReplay()
	s.queue.close()
}

// leaving tells whether the stream has been detached.
func (s *stream) leaving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detached
}

// leaveTime is how long a broker has to take what a stream has left to publish
// when it ends.
const leaveTime = 2 * time.Second

// close waits until all that was taken is dealt with and kept. Detach comes
// before.
func (s *stream) close(ctx context.Context) {
	s.end()
	hurry := time.AfterFunc(leaveTime, s.stop)
	s.queue.work.Wait()
	s.replays.Wait()
	hurry.Stop()
	s.stop()
	if err := s.kept.Close(ctx); err != nil {
		s.log.Warn("what a stream keeps could not be closed", "error", err)
	}
}

// modify goes on with another definition. A query that stays keeps its state.
func (s *stream) modify(d Definition, q *query.Query) {
	old := s.plan.Load()
	p := newPlan(d, q)
	if p.state != nil && old.state != nil && string(d.Query) == string(old.Query) {
		p.state = old.state
	}
	again := d.SourceTopic != old.SourceTopic || !d.Active
	if again {
		s.unsubscribe()
	}
	s.kept.SetTTL(d.TTL)
	s.plan.Store(p)
	s.attach()
}

// Keeps tells whether what is taken is to be safe before it is acknowledged.
func (s *stream) Keeps() bool { return s.plan.Load().Persist }

// Take queues a message.
func (s *stream) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	m.Retain = false // a stream sees what a plain subscriber does
	s.meters.received.Add(1)
	taken, wake := s.queue.put(m, notifier)
	if wake {
		go s.run()
	}
	if taken {
		return
	}
	s.meters.dropped.Add(1)
	if notifier != nil {
		notifier.Committed(errFull)
	}
}

// record gives the stream as its owner sees it.
func (s *stream) record() broker.Stream {
	r := s.plan.Load().Stream
	m, u := s.meters, s.kept.Usage()
	r.Stats = &broker.StreamStats{
		Received: m.received.Load(), Republished: m.republished.Load(), Persisted: m.persisted.Load(),
		Filtered: m.filtered.Load(), Invalid: m.invalid.Load(), Dropped: m.dropped.Load(),
		Evicted: u.Evicted, Expired: u.Expired, Messages: u.Messages, Bytes: u.Bytes,
	}
	r.Replay, r.Stats.Replayed = s.replaying()
	r.Replaying = r.Replay != nil
	if r.Active && s.engine.messaging.Refused(r.SourceTopic) {
		r.Error = "the broker does not let the user of its connection subscribe to the source topic, or too many sources overlap; the log tells which"
	}
	return r
}
