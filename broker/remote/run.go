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

// run keeps a session standing until the context ends. After a loss it tries
// again at once; after a failure, or when sessions do not last, ever later.
func (b *Broker) run(ctx context.Context) {
	defer b.link.close(b.explain(&failure{Err: errClosed}))
	for troubles := 0; ; troubles++ {
		b.link.attempt()
		s, f := b.establish(ctx)
		if f != nil {
			b.fail(ctx, f, resting)
		} else if b.attend(ctx, s) {
			troubles = 0
		}
		if ctx.Err() != nil {
			return
		}
		if f != nil || troubles > 0 {
			b.rest(ctx, b.timing.pause(troubles))
		}
	}
}

// establish makes a session of which it is known what the broker offers. One that
// is lost to a probe is made again at once: what it was lost to is counted, and
// left out the third time.
func (b *Broker) establish(ctx context.Context) (*session, *failure) {
	for {
		s, f := b.connect(ctx)
		if f != nil {
			if f.Stage == dial.StageDial { // it may come back as another one
				clear(b.losses)
			}
			return nil, f
		}
		if f = b.explore(ctx, s); f == nil {
			maps.DeleteFunc(b.losses, func(_ string, n int) bool { return n < maxLosses }) // they were chance
			return s, nil
		}
		s.close()
		if f.Stage != probing || !errors.Is(f, errLost) || ctx.Err() != nil {
			return nil, f
		}
		b.log.Info("the broker ended the connection while it was asked what it offers; connecting again", "error", f.Err)
	}
}

// attend shows the session to everybody until it is lost or the context ends.
// It tells whether the session stood long enough to be called good.
func (b *Broker) attend(ctx context.Context, s *session) (good bool) {
	b.log.Info("broker connected", "capabilities", s.offered.list())
	from := b.now()
	b.link.up(s)
	select {
	case <-s.lost:
		b.fail(ctx, &failure{Stage: attending, Err: errors.Join(errLost, s.err)}, connecting)
	case <-ctx.Done():
	}
	good = b.now().Sub(from) >= b.timing.stable
	s.close()
	return good
}

// fail shows and logs why there is no session, and what comes next. What is no
// news is logged only for those who want to know.
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
	b.link.down(cause, next)
}

// rest waits until the next attempt is due, or asked for.
func (b *Broker) rest(ctx context.Context, pause time.Duration) {
	b.link.rest()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.link.wake:
	case <-ctx.Done():
	}
}

// pause doubles with each trouble, up to a limit. Half of it is left to chance,
// so that not all services return to a broker at the same time.
func (t timing) pause(troubles int) time.Duration {
	full := t.maxPause
	if troubles < 16 {
		full = min(full, 2*t.minPause<<troubles)
	}
	return full/2 + rand.N(full/2+1)
}
