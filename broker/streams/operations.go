package streams

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"signalbox/broker"
)

// The names of the operations in the control API.
const (
	opList    = "listStreams"
	opGet     = "getStream"
	opCreate  = "createStream"
	opModify  = "modifyStream"
	opDelete  = "deleteStream"
	opCount   = "getStreamMessageCount"
	opClear   = "clearStreamMessages"
	opReplay  = "replayStream"
	opStop    = "stopStreamReplay"
	opPreview = "previewStream"
	opTimes   = "getStreamTimeline"
	opFollow  = "followStreams"
)

// ListStreams returns the streams, sorted by name.
func (e *Engine) ListStreams(ctx context.Context, o broker.ListOptions[broker.Stream]) (broker.Page[broker.Stream], error) {
	if err := e.Await(ctx, opList); err != nil {
		return broker.Page[broker.Stream]{}, err
	}
	var all []broker.Stream
	for _, s := range e.Streams() {
		wanted, err := broker.Matches(ctx, o.Match, s)
		if err != nil {
			return broker.Page[broker.Stream]{}, err
		}
		if wanted {
			all = append(all, s)
		}
	}
	total := len(all)
	all = all[min(o.Offset, total):]
	if o.Count >= 0 {
		all = all[:min(o.Count, len(all))]
	}
	if o.Rates {
		if err := e.measure(ctx, all); err != nil {
			return broker.Page[broker.Stream]{}, err
		}
	}
	return broker.Page[broker.Stream]{Total: total, Items: func(yield func(broker.Stream, error) bool) {
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}}, nil
}

// measure sets the rates of streams, after a span of time in which their messages are counted. A
// stream that was deleted meanwhile has none.
func (e *Engine) measure(ctx context.Context, records []broker.Stream) error {
	if len(records) == 0 {
		return nil
	}
	clock := e.host.clock
	began := clock.Now()
	if !sleep(ctx, clock, broker.RateSpan) {
		return &broker.Error{Kind: broker.Unavailable, Op: opList, Msg: "the rates of the streams could not be measured; try again", Err: ctx.Err()}
	}
	seconds := clock.Now().Sub(began).Seconds()
	for i, before := range records {
		s := e.stream(before.StreamName)
		if s == nil {
			continue
		}
		now := s.record()
		if n := now.Stats.Received - before.Stats.Received; n >= 0 { // otherwise it was created again
			now.Rate = new(float64(n) / seconds)
		}
		records[i] = now
	}
	return nil
}

// GetStream returns the record of a stream.
func (e *Engine) GetStream(ctx context.Context, streamname string) (broker.Stream, error) {
	s, err := e.find(ctx, opGet, streamname)
	if err != nil {
		return broker.Stream{}, err
	}
	return s.record(), nil
}

// CreateStream stores a new stream and starts it.
func (e *Engine) CreateStream(ctx context.Context, spec broker.StreamSpec) error {
	return e.Change(ctx, opCreate, func(ctx context.Context) error {
		d, _, err := define(opCreate, nil, spec, true)
		if err != nil {
			return err
		}
		if e.stream(d.StreamName) != nil {
			return &broker.Error{Kind: broker.Exists, Op: opCreate, Msg: "Stream already exists"}
		}
		if err := e.checkLoop(ctx, opCreate, d); err != nil {
			return err
		}
		d.UID = 1 + rand.Int64N(math.MaxInt64)
		return e.create(ctx, d)
	})
}

func (e *Engine) create(ctx context.Context, d Definition) (err error) {
	var s *stream
	d.Rev, err = e.put(ctx, d, func() (err error) {
		if d.ID, err = e.host.store.Put(ctx, e.brokerID, d); err != nil {
			return err
		}
		if s, err = e.open(ctx, d); err != nil {
			return errors.Join(err, e.host.store.Delete(ctx, d.ID))
		}
		return nil
	})
	if err != nil {
		return e.StoreFailed(opCreate, err)
	}
	s.plan.Load().Rev = d.Rev // no other goroutine has it yet
	e.add(s)
	return nil
}

// add adds a stream and subscribes it.
func (e *Engine) add(s *stream) {
	e.mu.Lock()
	e.streams[s.plan.Load().StreamName] = s
	e.mu.Unlock()
	s.attach()
}

// ModifyStream changes the members of a stream that the spec has, or with
// replace all of them. Its messages are kept, and so is the state of its query
// unless the query changes.
func (e *Engine) ModifyStream(ctx context.Context, spec broker.StreamSpec, replace bool) error {
	return e.Change(ctx, opModify, func(ctx context.Context) error {
		s, err := e.find(ctx, opModify, spec.StreamName)
		if err != nil {
			return err
		}
		old := s.plan.Load().Definition
		d, q, err := define(opModify, &old, spec, replace)
		if err != nil {
			return err
		}
		if err := e.checkLoop(ctx, opModify, d); err != nil {
			return err
		}
		d.Rev, err = e.put(ctx, d, func() error {
			_, err := e.host.store.Put(ctx, e.brokerID, d)
			return err
		})
		if err != nil {
			return e.StoreFailed(opModify, err)
		}
		s.modify(d, q)
		return nil
	})
}

// DeleteStream stops a stream and deletes it with its messages.
func (e *Engine) DeleteStream(ctx context.Context, streamname string) error {
	return e.Change(ctx, opDelete, func(ctx context.Context) error {
		s, err := e.find(ctx, opDelete, streamname)
		if err != nil {
			return err
		}
		d := s.plan.Load().Definition
		_, err = e.host.Registry.Put(ctx, e.brokerID, streamname, nil, d.Rev, func() error { return e.delete(ctx, s) })
		if err != nil {
			return e.StoreFailed(opDelete, err)
		}
		return nil
	})
}

// delete ends a stream and deletes what is stored of it. If that fails, the stream goes on.
func (e *Engine) delete(ctx context.Context, s *stream) error {
	d := s.plan.Load().Definition
	s.detach()
	s.close(ctx)
	if err := e.host.store.Delete(ctx, d.ID); err != nil {
		return e.reopen(ctx, s, err)
	}
	e.mu.Lock()
	delete(e.streams, d.StreamName)
	e.mu.Unlock()
	return nil
}

// reopen opens a stream again that could not be deleted. It returns the cause.
func (e *Engine) reopen(ctx context.Context, old *stream, cause error) error {
	s, err := e.open(ctx, old.plan.Load().Definition)
	if err != nil {
		return fmt.Errorf("%w; and it cannot be opened again: %w", cause, err)
	}
	s.continueFrom(old)
	e.add(s)
	return cause
}

// CountStreamMessages returns the number of stored messages of a stream.
func (e *Engine) CountStreamMessages(ctx context.Context, streamname string) (broker.StreamCount, error) {
	s, err := e.find(ctx, opCount, streamname)
	if err != nil {
		return broker.StreamCount{}, err
	}
	n, err := s.messageLog.Count(ctx, allTimes)
	if err != nil {
		return broker.StreamCount{}, e.logFailed(opCount, s, err)
	}
	return broker.StreamCount{StreamName: streamname, Count: n}, nil
}

// allTimes is the range of all messages.
var allTimes = Range{From: math.MinInt64, To: math.MaxInt64}

// ClearStreamMessages deletes stored messages.
func (e *Engine) ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error {
	s, err := e.find(ctx, opClear, streamname)
	if err != nil {
		return err
	}
	r, err := rangeOf(gte, lte)
	if err != nil {
		return withOp(opClear, err)
	}
	if err := s.messageLog.Clear(ctx, r); err != nil {
		return e.logFailed(opClear, s, err)
	}
	return nil
}

// StreamTimeline counts stored messages in slices of equal length.
func (e *Engine) StreamTimeline(ctx context.Context, streamname string, gte, lte *float64, slices int) (broker.StreamTimeline, error) {
	s, err := e.find(ctx, opTimes, streamname)
	if err != nil {
		return broker.StreamTimeline{}, err
	}
	r, err := rangeOf(gte, lte)
	if err != nil {
		return broker.StreamTimeline{}, withOp(opTimes, err)
	}
	t, err := s.messageLog.Timeline(ctx, r, slices)
	if err != nil {
		return broker.StreamTimeline{}, e.logFailed(opTimes, s, err)
	}
	timeline := broker.StreamTimeline{StreamName: streamname, First: t.First, Last: t.Last, Step: t.Step, Counts: t.Counts}
	for _, n := range t.Counts {
		timeline.Count += n
	}
	if t.Counts == nil { // too many to be counted one by one
		timeline.Count, err = s.messageLog.Count(ctx, r)
	}
	if err != nil {
		return broker.StreamTimeline{}, e.logFailed(opTimes, s, err)
	}
	return timeline, nil
}

// logFailed returns the error of an operation on a stream's log: the engine or
// the stream was closed meanwhile, or the store failed.
func (e *Engine) logFailed(op string, s *stream, err error) error {
	switch {
	case e.Context().Err() != nil:
		return e.Closing(op)
	case s.isDetached():
		return notFound(op)
	}
	return e.StoreFailed(op, err)
}

// ReplayStream starts a replay.
func (e *Engine) ReplayStream(ctx context.Context, r broker.StreamReplay) error {
	return e.Change(ctx, opReplay, func(ctx context.Context) error {
		s, err := e.find(ctx, opReplay, r.StreamName)
		if err != nil {
			return err
		}
		d := s.plan.Load().Definition
		if err := checkReplay(d, r); err != nil {
			return err
		}
		if chain := findReplayLoop(append(e.active(""), e.peerStreams(ctx)...), d, r.ReplayTopic); chain != nil {
			return loopError(opReplay, chain)
		}
		if err := e.messaging.Reached(); err != nil {
			return withOp(opReplay, err)
		}
		return s.startReplay(ctx, r)
	})
}

// StopStreamReplay stops the running replay and waits for its end.
func (e *Engine) StopStreamReplay(ctx context.Context, streamname string) error {
	s, err := e.find(ctx, opStop, streamname)
	if err != nil {
		return err
	}
	if !s.stopReplay() {
		return &broker.Error{Kind: broker.Conflict, Op: opStop, Msg: "no replay of this stream is running"}
	}
	return nil
}

// checkLoop refuses a definition that closes a loop, or a path on which a
// running replay comes back to its stream.
func (e *Engine) checkLoop(ctx context.Context, op string, d Definition) error {
	if !d.Active {
		return nil
	}
	own, peers := e.active(d.StreamName), e.peerStreams(ctx)
	if chain := findLoop(append(own, peers...), d); chain != nil {
		return loopError(op, chain)
	}
	return e.checkReplays(op, append(own, d), peers)
}

// checkReplays refuses active streams through which, and those of other engines, a running
// replay would come back to its stream.
func (e *Engine) checkReplays(op string, own, peers []Definition) error {
	active := append(own, peers...)
	for _, d := range own {
		s := e.stream(d.StreamName)
		if s == nil {
			continue
		}
		if now, _ := s.replayProgress(); now != nil {
			if chain := findReplayLoop(active, d, now.ReplayTopic); chain != nil {
				return &broker.Error{Kind: broker.Conflict, Op: op, Msg: "a replay runs whose messages would come back to their stream by " +
					formatChain(chain) + ": stop it or wait for its end"}
			}
		}
	}
	return nil
}

// active returns the definitions of all active streams except one.
func (e *Engine) active(except string) []Definition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]Definition, 0, len(e.streams))
	for name, s := range e.streams {
		if d := s.plan.Load().Definition; d.Active && name != except {
			all = append(all, d)
		}
	}
	return all
}

// withOp sets the operation of an error that has none yet.
func withOp(op string, err error) error {
	if e, ok := err.(*broker.Error); ok && e.Op == "" { //nolint:errorlint // as it was made here
		named := *e
		named.Op = op
		return &named
	}
	return err
}
