package streams

import (
	"context"
	"errors"

	"signalbox/broker"
)

// running is a replay that is under way.
type running struct {
	replay *replay
	cancel context.CancelFunc
	done   chan struct{}
}

// replay begins a replay, unless one is running.
func (s *stream) replay(ctx context.Context, r broker.StreamReplay) error {
	d := s.plan.Load().Definition
	span, err := rangeOf(r.GTE, r.LTE)
	if err != nil {
		return during(opReplay, err)
	}
	total, err := s.kept.Count(ctx, span)
	if err != nil {
		return s.engine.StoreFailed(opReplay, err)
	}
	life, cancel := context.WithCancel(s.life)
	now := &running{replay: newReplay(d, r, total, s.engine.host.clock), cancel: cancel, done: make(chan struct{})}
	now.replay.log = s.log
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		cancel()
		return &broker.Error{Kind: broker.Conflict, Op: opReplay, Msg: "a replay of this stream is running; wait for its end or stop it"}
	}
	s.running = now
	s.replays.Go(func() { s.follow(life, now) })
	return nil
}

// follow runs a replay to its end.
func (s *stream) follow(ctx context.Context, now *running) {
	defer close(now.done)
	defer now.cancel()
	err := now.replay.run(ctx, s.kept, s.engine.messaging)
	sent := now.replay.progress().Sent
	if err != nil && !errors.Is(err, context.Canceled) {
		s.log.Warn("a replay broke off", "sent", sent, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meters.replayed.Add(sent)
	s.running = nil
}

// replaying gives the progress of the replay that runs, nil for none, and how
// many messages all replays have sent.
func (s *stream) replaying() (now *broker.StreamProgress, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent = s.meters.replayed.Load()
	if s.running == nil {
		return nil, sent
	}
	p := s.running.replay.progress()
	return &p, sent + p.Sent
}

// stopReplay ends the replay that runs and waits for that. It tells whether one
// ran.
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
