package client

import (
	"context"
	"log/slog"
	"time"
)

// keep has connections made, one after the other, until attend is done or the
// context ends. After one that stood for a while it tries again at once, after
// others ever later.
func (f *Feed) keep(ctx context.Context, log *slog.Logger, attend func(context.Context) (done bool, err error)) {
	told := ""
	for troubles := 0; ; troubles++ {
		if f.options.Await(ctx) != nil {
			return
		}
		from := f.options.Now()
		done, err := attend(ctx)
		if done || ctx.Err() != nil {
			return
		}
		good := f.options.Now().Sub(from) >= f.timing.Stable
		if good {
			troubles, told = -1, ""
		}
		if err == nil {
			continue
		}
		cause, level := f.options.Explain(err), slog.LevelDebug
		if cause.Msg != told {
			told, level = cause.Msg, slog.LevelWarn
		}
		log.Log(ctx, level, "client not connected", "cause", cause.Msg, "error", err)
		if !good {
			rest(ctx, f.timing.pause(max(troubles, 0)))
		}
	}
}

func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
