package remote

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	"signalbox/broker/mqtt/dial"
)

// run maintains a session until ctx ends. After a loss it tries again at once; after failures,
// or when sessions do not last, with increasing delays.
func (b *Broker) run(ctx context.Context) {
	defer b.link.close(b.explain(&failure{Err: errClosed}))
	for failures := 0; ; failures++ {
		b.link.beginAttempt()
		s, f := b.establish(ctx)
		if f != nil {
			b.figures.connectFailures.Add(1)
			b.fail(ctx, f, waitingToRetry)
		} else if b.serve(ctx, s) {
			failures = 0
		}
		if ctx.Err() != nil {
			return
		}
		if f != nil || failures > 0 {
			b.waitForRetry(ctx, b.timing.delay(failures))
		}
	}
}

// establish makes a session and discovers what the broker offers. A session lost to a probe is
// made again at once: the loss is counted, and the probe skipped the third time.
func (b *Broker) establish(ctx context.Context) (*session, *failure) {
	for {
		s, f := b.connect(ctx)
		if f != nil {
			if f.Stage == dial.StageDial { // it may return with another configuration
				clear(b.losses)
			}
			return nil, f
		}
		if f = b.discover(ctx, s); f == nil {
			maps.DeleteFunc(b.losses, func(_ string, n int) bool { return n < maxLosses }) // they were chance
			return s, nil
		}
		s.close()
		if f.Stage != discovering || !errors.Is(f, errLost) || ctx.Err() != nil {
			return nil, f
		}
		b.log.Info("the broker ended the connection while it was asked what it offers; connecting again", "error", f.Err)
	}
}

// serve publishes the session until it is lost or ctx ends. It reports whether the session was
// stable.
func (b *Broker) serve(ctx context.Context, s *session) (stable bool) {
	b.log.Info("broker connected", "capabilities", s.offered.list())
	b.figures.sessions.Add(1)
	from := b.now()
	b.link.connected(s)
	select {
	case <-s.lost:
		b.fail(ctx, &failure{Stage: serving, Err: errors.Join(errLost, s.err)}, connecting)
	case <-ctx.Done():
	}
	stable = b.now().Sub(from) >= b.timing.stable
	s.close()
	return stable
}

// fail records and logs why there is no session, and the next phase. A repeated cause is
// logged at debug level.
func (b *Broker) fail(ctx context.Context, f *failure, next phase) {
	if ctx.Err() != nil {
		return
	}
	cause := b.explain(f)
	level := slog.LevelWarn
	if b.link.status().Error == cause.Msg {
		level = slog.LevelDebug
	}
	b.log.Log(ctx, level, "broker not connected", "cause", cause.Msg, "error", cause.Err)
	b.link.disconnected(cause, next)
}

// waitForRetry waits until the next attempt is due or requested.
func (b *Broker) waitForRetry(ctx context.Context, pause time.Duration) {
	b.link.waitForRetry()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.link.wake:
	case <-ctx.Done():
	}
}

// delay returns an exponential delay, half of which is random, so that services do not
// reconnect to a broker at the same time.
func (t timing) delay(failures int) time.Duration {
	full := t.maxDelay
	if failures < 16 {
		full = min(full, 2*t.minDelay<<failures)
	}
	return full/2 + rand.N(full/2+1)
}
