package streams

import (
	"context"
	"time"
)

// clock measures pauses and the pace of replays. Tests control it.
type clock interface {
	// Now returns the current time.
	Now() time.Time
	// After returns a channel that receives after d, and a function that
	// releases it before.
	After(d time.Duration) (due <-chan time.Time, stop func())
}

// realClock is the clock of the operating system. Its times have a monotonic
// part, so their differences are right even if the time of day is set.
type realClock struct{}

// Now is [time.Now].
func (realClock) Now() time.Time { return time.Now() }

// After starts a timer.
func (realClock) After(d time.Duration) (due <-chan time.Time, stop func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// sleep waits for a duration. It reports false if the context ends first.
func sleep(ctx context.Context, c clock, d time.Duration) bool {
	due, stop := c.After(d)
	defer stop()
	select {
	case <-due:
		return true
	case <-ctx.Done():
		return false
	}
}
