package streams

import (
	"context"
	"time"
)

// clock is the time by which pauses and the pace of replays are measured, so
// that tests can drive it.
type clock interface {
	// Now tells the time.
	Now() time.Time
	// After gives a channel that receives once d has passed, and a function that
	// lets go of it before.
	After(d time.Duration) (due <-chan time.Time, stop func())
}

// realClock is the clock of the operating system. The distance of two times of
// it stays right when the time of day is set.
type realClock struct{}

// Now is [time.Now].
func (realClock) Now() time.Time { return time.Now() }

// After begins a timer.
func (realClock) After(d time.Duration) (due <-chan time.Time, stop func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// rest waits for a while; it answers false if the context ends first.
func rest(ctx context.Context, c clock, d time.Duration) bool {
	due, stop := c.After(d)
	defer stop()
	select {
	case <-due:
		return true
	case <-ctx.Done():
		return false
	}
}
