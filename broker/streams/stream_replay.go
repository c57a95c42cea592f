package streams

import (
	"context"
	"errors"

	"signalbox/broker"
)

// runningReplay is a replay in progress.
type runningReplay struct {
	replay *replay
	cancel context.CancelFunc
	done   chan struct{}
}

// startReplay starts a replay, unless one is running.
func (s *stream) startReplay(ctx context.Context, r broker.StreamReplay) error {
	d := s.plan.Load().Definition
	times, err := rangeOf(r.GTE, r.LTE)
	if err != nil {
		return withOp(opReplay, err)
	}
	total, err := s.messageLog.Count(ctx, times)
	if err != nil {
		return s.engine.StoreFailed(opReplay, err)
	}
	replayCtx, cancel := context.WithCancel(s.lifetime)
	now := &runningReplay{replay: newReplay(d, r, total, s.engine.host.clock), cancel: cancel, done: make(chan struct{})}
	now.replay.log = s.log
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		cancel()
		return &broker.Error{Kind: broker.Conflict, Op: opReplay, Msg: "a replay of this stream is running; wait for its end or stop it"}
	}
	s.running = now
	s.replays.Go(func() { s.runReplay(replayCtx, now) })
	return nil
}

// runReplay runs a replay to its end.
func (s *stream) runReplay(ctx context.Context, now *runningReplay) {
	defer close(now.done)
	defer now.cancel()
	err := now.replay.run(ctx, s.messageLog, s.engine.messaging)
	sent := now.replay.progress().Sent
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("a replay ended early", "sent", sent, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters.replayed.Add(sent)
	s.running = nil
}

// replayProgress returns the progress of the running replay, nil if there is
// none, and the number of messages that all replays have sent.
func (s *stream) replayProgress() (now *broker.StreamProgress, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent = s.counters.replayed.Load()
	if s.running == nil {
		return nil, sent
	}
	p := s.running.replay.progress()
	return &p, sent + p.Sent
}

// stopReplay stops the running replay and waits for its end. It reports whether
// there was one.
func (s *stream) stopReplay() bool {
	s.mu.Lock()
	now := s.running
	s.mu.Unlock()
	if now == nil {
		return false
	}
	now.cancel()
	<-now.done
	return true
}
