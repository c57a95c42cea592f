package client

import (
	"context"
	"log/slog"
	"time"
)

// maintain calls connect repeatedly until it is done or ctx ends: at once after a stable
// connection, otherwise with an increasing delay.
func (c *Client) maintain(ctx context.Context, log *slog.Logger, connect func(ctx, serving context.Context) (done bool, err error)) {
	lastLogged := ""
	for failures := 0; ; failures++ {
		serving, err := c.serving(ctx)
		if err != nil || c.options.Await(ctx) != nil {
			return
		}
		if serving.Err() != nil {
			failures--
			continue
		}
		start := c.options.Now()
		done, err := connect(ctx, serving)
		if done || ctx.Err() != nil {
			return
		}
		stable := c.options.Now().Sub(start) >= c.timing.Stable
		if stable {
			failures, lastLogged = -1, ""
		}
		if err == nil {
			continue
		}
		cause, level := c.options.Explain(err), slog.LevelDebug
		if cause.Msg != lastLogged {
			lastLogged, level = cause.Msg, slog.LevelWarn
		}
		log.Log(ctx, level, "client not connected", "cause", cause.Msg, "error", err)
		if !stable {
			sleep(ctx, c.timing.delay(max(failures, 0)))
		}
	}
}

// serving waits until this client uses its sessions. The context that it returns ends when others do.
func (c *Client) serving(ctx context.Context) (context.Context, error) {
	if c.options.Serving == nil {
		return context.Background(), ctx.Err()
	}
	return c.options.Serving(ctx)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
