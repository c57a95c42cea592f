package streams

import (
	"context"
	"errors"
	"fmt"
	"math"

	"signalbox/broker"
)

// The names of the operations, as in the control API.
const (
	opList   = "listStreams"
	opGet    = "getStream"
	opCreate = "createStream"
	opModify = "modifyStream"
	opDelete = "deleteStream"
	opCount  = "getStreamMessageCount"
	opClear  = "clearStreamMessages"
	opReplay = "replayStream"
	opStop   = "stopStreamReplay"
)

// ListStreams gives the streams in order of their names.
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
	return broker.Page[broker.Stream]{Total: total, Items: func(yield func(broker.Stream, error) bool) {
		for _, s := range all {
			if !yield(s, nil) {
				return
			}
		}
	}}, nil
}

// GetStream gives a stream's record.
func (e *Engine) GetStream(ctx context.Context, streamname string) (broker.Stream, error) {
	s, err := e.find(ctx, opGet, streamname)
	if err != nil {
		return broker.Stream{}, err
	}
	return s.record(), nil
}

// CreateStream stores a new stream and sets it going.
func (e *Engine) CreateStream(ctx context.Context, spec broker.StreamSpec) error {
	return e.Change(ctx, opCreate, func(ctx context.Context) error {
		d, _, err := define(nil, spec, true)
		if err != nil {
			return err
		}
		if e.stream(d.StreamName) != nil {
			return &broker.Error{Kind: broker.Exists, Op: opCreate, Msg: "Stream already exists"}
		}
		if err := e.checkLoop(opCreate, d); err != nil {
			return err
		}
		return e.create(ctx, d)
	})
}

func (e *Engine) create(ctx context.Context, d Definition) (err error) {
	if d.ID, err = e.host.store.Put(ctx, e.brokerID, d); err != nil {
		return e.StoreFailed(opCreate, err)
	}
	s, err := e.open(ctx, d)
	if err != nil {
		return e.StoreFailed(opCreate, errors.Join(err, e.host.store.Delete(ctx, d.ID)))
	}
	e.begins(s)
	return nil
}

// begins adds a stream and has it take messages.
func (e *Engine) begins(s *stream) {
	e.mu.Lock()
	e.streams[s.plan.Load().StreamName] = s
	e.mu.Unlock()
	s.attach()
}

// ModifyStream changes what is given of a stream, or with replace all of it. Its
// messages stay, and the state of its query unless that becomes another.
func (e *Engine) ModifyStream(ctx context.Context, spec broker.StreamSpec, replace bool) error {
	return e.Change(ctx, opModify, func(ctx context.Context) error {
		s, err := e.find(ctx, opModify, spec.StreamName)
		if err != nil {
			return err
		}
		old := s.plan.Load().Definition
		d, q, err := define(&old, spec, replace)
		if err != nil {
			return err
		}
		if err := e.checkLoop(opModify, d); err != nil {
			return err
		}
		if _, err := e.host.store.Put(ctx, e.brokerID, d); err != nil {
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
		s.detach()
		s.close(ctx)
		if err := e.host.store.Delete(ctx, s.plan.Load().ID); err != nil {
			return e.StoreFailed(opDelete, e.resume(ctx, s, err))
		}
		e.mu.Lock()
		delete(e.streams, streamname)
		e.mu.Unlock()
		return nil
	})
}

// resume sets a stream going again that could not be deleted.
func (e *Engine) resume(ctx context.Context, old *stream, cause error) error {
	s, err := e.open(ctx, old.plan.Load().Definition)
	if err != nil {
		return fmt.Errorf("%w; and it cannot be opened again: %w", cause, err)
	}
	s.goOn(old)
	e.begins(s)
	return cause
}

// CountStreamMessages tells how many messages a stream keeps.
func (e *Engine) CountStreamMessages(ctx context.Context, streamname string) (broker.StreamCount, error) {
	s, err := e.find(ctx, opCount, streamname)
	if err != nil {
		return broker.StreamCount{}, err
	}
	n, err := s.kept.Count(ctx, everything)
	if err != nil {
		return broker.StreamCount{}, e.lost(opCount, s, err)
	}
	return broker.StreamCount{StreamName: streamname, Count: n}, nil
}

// everything is the range of all messages.
var everything = Range{From: math.MinInt64, To: math.MaxInt64}

// ClearStreamMessages deletes kept messages.
func (e *Engine) ClearStreamMessages(ctx context.Context, streamname string, gte, lte *float64) error {
	s, err := e.find(ctx, opClear, streamname)
	if err != nil {
		return err
	}
	r, err := rangeOf(gte, lte)
	if err != nil {
		return during(opClear, err)
	}
	if err := s.kept.Clear(ctx, r); err != nil {
		return e.lost(opClear, s, err)
	}
	return nil
}

// lost tells why there is no way to what a stream keeps: it was closed or deleted
// meanwhile, or the store failed.
func (e *Engine) lost(op string, s *stream, err error) error {
	switch {
	case e.Context().Err() != nil:
		return e.Closing(op)
	case s.leaving():
		return notFound(op)
	}
	return e.StoreFailed(op, err)
}

// ReplayStream begins a replay.
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
		if chain := replayLoop(e.active(""), d, r.ReplayTopic); chain != nil {
			return loopError(opReplay, chain)
		}
		if err := e.messaging.Reached(); err != nil {
			return during(opReplay, err)
		}
		return s.replay(ctx, r)
	})
}

// StopStreamReplay ends the replay that runs and waits for its end.
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

// checkLoop refuses a definition that closes a loop, or the way of a replay that
// runs back to its stream.
func (e *Engine) checkLoop(op string, d Definition) error {
	if !d.Active {
		return nil
	}
	others := e.active(d.StreamName)
	if chain := loop(others, d); chain != nil {
		return loopError(op, chain)
	}
	return e.checkReplays(op, append(others, d))
}

// checkReplays refuses active streams that would take what is being replayed
// back to where it is kept.
func (e *Engine) checkReplays(op string, active []Definition) error {
	for _, d := range active {
		s := e.stream(d.StreamName)
		if s == nil {
			continue
		}
		if now, _ := s.replaying(); now != nil {
			if chain := replayLoop(active, d, now.ReplayTopic); chain != nil {
				return &broker.Error{Kind: broker.Conflict, Op: op, Msg: "a replay runs whose messages would come back to their stream by " +
					drawn(chain) + ": stop it or wait for its end"}
			}
		}
	}
	return nil
}

// active gives the definitions of all streams that are active, but for one.
func (e *Engine) active(but string) []Definition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]Definition, 0, len(e.streams))
	for name, s := range e.streams {
		if d := s.plan.Load().Definition; d.Active && name != but {
			all = append(all, d)
		}
	}
	return all
}

// during names the operation in an error that has none yet.
func during(op string, err error) error {
	if e, ok := err.(*broker.Error); ok && e.Op == "" { //nolint:errorlint // as it was made here
		named := *e
		named.Op = op
		return &named
	}
	return err
}
