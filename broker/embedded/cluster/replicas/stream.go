package replicas

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// The states of a stream.
type state byte

const (
	absent   state = iota // the other node has no replica, or one that lacks changes
	loading               // it is sent the state with which the replica begins; changes gather
	complete              // all further changes wait for it
	promoted              // the sessions have continued from it: no change of them counts
)

// Bounds of a batch, in bytes of changes and in changes.
const (
	batchBytes   = 1 << 20
	batchChanges = 4096
)

// stream sends the changes of sessions to the node that has their replicas, in order.
type stream struct {
	r     *Replicator
	node  int
	nodes []int // by which sessions are assigned
	wake  chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	task   sync.WaitGroup

	// Guarded by r.mu.
	state   state
	queue   []queuedChanges
	bytes   int64  // of the queue
	next    uint64 // position of the next changes
	overrun bool   // more was to be queued than may be, while it was loading
	shared  uint64 // position from which on changes wait for the replica
	changes int64
	begun   int64

	// Of run.
	id       uint64 // names the replica; another one each time that it is begun
	attached bool   // the order was proposed: it may be applied
	ending   uint64 // the promoted replica whose sessions have ended, by the last order that was proposed
}

// queuedChanges are changes that the other node has not acknowledged.
type queuedChanges struct {
	encoded []byte
	outcome *outcome // that waits for them; nil for none
}

func newStream(r *Replicator, node int, nodes []int) *stream {
	s := &stream{r: r, node: node, nodes: nodes, wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *stream) start() { s.task.Go(s.run) }

// stop ends run. What waits for the replica goes on waiting.
func (s *stream) stop() {
	s.cancel()
	s.task.Wait()
}

// append adds changes to the queue if the other node has a replica, or is about to. r.mu is held.
func (s *stream) append(c *engine.Changes, o *outcome) {
	switch {
	case s.state == promoted:
		o.err = errSuperseded
		return
	case s.state == absent, s.overrun:
		return
	}
	q := queuedChanges{encoded: encodeChanges(c)}
	size := int64(len(q.encoded))
	if s.state == loading && s.bytes+size > s.r.o.MaxQueued/2 {
		s.drop(nil)
		s.overrun = true
		return
	}
	if s.state == complete {
		o.waits.Add(1)
		q.outcome = o
	}
	s.queue = append(s.queue, q)
	s.bytes += size
	s.next++
	if s.state == complete {
		s.r.count(size)
		s.notify()
	}
}

// errSuperseded is the outcome of changes of sessions that have continued from their replica.
var errSuperseded = fmt.Errorf("%w: %w", engine.ErrUncertain, ErrPromoted)

// drop drops the queue. What waits for the replica has err as its outcome, if that is not nil. r.mu is held.
func (s *stream) drop(err error) {
	if s.state == complete {
		s.r.count(-s.bytes)
	}
	for _, q := range s.queue {
		if q.outcome == nil {
			continue
		}
		if q.outcome.err == nil {
			q.outcome.err = err
		}
		q.outcome.waits.Add(-1)
	}
	s.queue, s.bytes = nil, 0
}

// notify wakes run.
func (s *stream) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// giveUp drops the replica for a reason. What waits for it is acknowledged without it once the replica cannot be
// promoted any more; if it was promoted, nothing that waits is acknowledged.
func (s *stream) giveUp(reason error) {
	if errors.Is(reason, ErrPromoted) {
		s.attached = false
	}
	err := s.detach()
	if err == nil && errors.Is(reason, ErrPromoted) {
		err = errSuperseded
	}
	s.r.mu.Lock()
	s.drop(err)
	s.state = absent
	if errors.Is(err, ErrPromoted) {
		s.state = promoted
	}
	s.r.mu.Unlock()
	s.r.outcomes.report()
}

// run begins replicas and continues them, until stop.
func (s *stream) run() {
	for s.ctx.Err() == nil {
		pause := s.r.o.RetryInterval
		err := s.endSuperseded()
		if err == nil {
			err = s.replicate()
			if s.ctx.Err() != nil {
				return
			}
			if s.isComplete() && errors.Is(err, errUnknown) { // it has lost the replica, and can be sent a new one
				pause = 0
			}
			s.giveUp(err)
		}
		s.r.o.Log.Warn("a node does not get replicas of this node's sessions", "node", s.node, "error", err)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
		}
	}
}

// replicate begins a replica and continues it, until the other node does not get it or stop.
func (s *stream) replicate() error {
	if err := s.load(); err != nil {
		return err
	}
	s.r.o.Log.Info("sessions of this node have their replicas at another node", "node", s.node)
	return s.send()
}

// isComplete reports whether changes wait for the replica.
func (s *stream) isComplete() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.state == complete
}

// begin marks the point between two changes at which a replica begins: everything before it is in the snapshot.
func (s *stream) begin() (wait func() (*engine.Snapshot, error), marked <-chan error) {
	outcome := make(chan error, 1)
	s.r.submitting.Lock()
	defer s.r.submitting.Unlock()
	wait = s.r.o.Local.StartLoad(s.ctx)
	s.r.o.Local.Submit(&engine.Changes{Done: marker{s, outcome}})
	return wait, outcome
}

// marker is the CommitNotifier of no changes, where a replica begins.
type marker struct {
	stream  *stream
	outcome chan<- error
}

// Committed lets changes gather from now on.
func (m marker) Committed(_ *engine.Changes, err error) {
	s := m.stream
	if err == nil {
		s.r.mu.Lock()
		s.state, s.overrun, s.next = loading, false, firstPosition
		s.begun++
		s.r.mu.Unlock()
	}
	m.outcome <- err
}

// firstPosition is that of the first changes behind the state with which a replica begins. At the one before it the
// replica is complete.
const firstPosition = 2

var errOverrun = errors.New("more was changed meanwhile than may wait for a node")

// load sends the state with which a replica begins.
func (s *stream) load() error {
	s.id = s.r.nextStream(s.node)
	if err := s.request(kindBegin, nil); err != nil {
		return err
	}
	wait, marked := s.begin()
	snapshot, err := wait()
	if err = errors.Join(err, <-marked); err != nil {
		return fmt.Errorf("read the sessions of this node: %w", err)
	}
	l := loader{stream: s}
	for i := range snapshot.Sessions {
		if err := l.session(&snapshot.Sessions[i]); err != nil {
			return err
		}
	}
	if err := l.flush(); err != nil {
		return err
	}
	if err := s.request(kindComplete, nil); err != nil {
		return err
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.overrun {
		return errOverrun
	}
	s.state, s.shared = complete, s.next
	s.r.count(s.bytes)
	return nil
}

// send sends changes as they come. It returns when the replica does not get them.
func (s *stream) send() error {
	position := uint64(firstPosition)
	for {
		if err := s.attach(position); err != nil {
			return err
		}
		b := s.take(position)
		if len(b.changes) == 0 {
			select {
			case <-s.wake:
				continue
			case <-s.ctx.Done():
				return s.ctx.Err()
			}
		}
		if err := s.request(kindAppend, b.encode()); err != nil {
			return err
		}
		s.acknowledge(len(b.changes))
		position = b.last() + 1
	}
}

// take returns the first changes of the queue, which stay there.
func (s *stream) take(position uint64) batch {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	b := batch{first: position}
	bytes := 0
	for i := range s.queue {
		bytes += len(s.queue[i].encoded)
		if i > 0 && bytes > batchBytes || i == batchChanges {
			break
		}
		b.changes = append(b.changes, s.queue[i].encoded)
	}
	return b
}

// acknowledge removes the first changes of the queue, which the replica has.
func (s *stream) acknowledge(n int) {
	s.r.mu.Lock()
	freed := int64(0)
	for _, q := range s.queue[:n] {
		freed += int64(len(q.encoded))
		if q.outcome != nil {
			q.outcome.waits.Add(-1)
		}
	}
	clear(s.queue[:n])
	s.queue = s.queue[n:]
	s.bytes -= freed
	s.changes += int64(n)
	s.r.count(-freed)
	s.r.mu.Unlock()
	s.r.outcomes.report()
}
