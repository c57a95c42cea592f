package streams

import (
	"context"
	"signalbox/scripts/suite"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// drivenClock stands still until a test advances it.
type drivenClock struct {
	armed chan time.Duration // gets the length of every wait that begins

	mu     sync.Mutex // guards what follows
	now    time.Time
	alarms []alarm
}

type alarm struct {
	at  time.Time
	due chan time.Time
}

func newDrivenClock() *drivenClock {
	return &drivenClock{armed: make(chan time.Duration, 100), now: time.UnixMilli(1_700_000_000_000)}
}

func (c *drivenClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *drivenClock) After(d time.Duration) (<-chan time.Time, func()) {
	a := alarm{due: make(chan time.Time, 1)}
	c.mu.Lock()
	a.at = c.now.Add(d)
	c.alarms = append(c.alarms, a)
	c.mu.Unlock()
	c.armed <- d
	return a.due, func() { c.remove(a) }
}

func (c *drivenClock) remove(a alarm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms = slices.DeleteFunc(c.alarms, func(b alarm) bool { return a.due == b.due })
}

// advance lets time go by, and rings whoever has waited long enough.
func (c *drivenClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, a := range c.alarms {
		if !a.at.After(c.now) {
			select {
			case a.due <- c.now:
			default: // it has rung
			}
		}
	}
}

// pending tells how many waits have not been let go of.
func (c *drivenClock) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.alarms)
}

// waits holds against want how long the next wait is to be that begins.
func (c *drivenClock) waits(t *testing.T, want time.Duration) {
	t.Helper()
	if got := receive(t, c.armed); got != want {
		t.Fatalf("waits for %v, want %v", got, want)
	}
}

// receive gives what comes from a channel, or fails the test.
func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(suite.HangLimit):
		t.Fatal("nothing came in 20 seconds")
		panic("unreachable")
	}
}

func TestRest(t *testing.T) {
	t.Parallel()
	t.Run("lasts as long as it is to", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			begun := realClock{}.Now()
			if !rest(t.Context(), realClock{}, time.Hour) {
				t.Fatal("got false, want true")
			}
			if got := (realClock{}).Now().Sub(begun); got != time.Hour {
				t.Errorf("lasted %v, want an hour", got)
			}
		})
	})
	t.Run("ends with the context", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if rest(ctx, realClock{}, time.Hour) {
				t.Error("got true, want false")
			}
		})
	})
	t.Run("lets go of its timer", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		clock := newDrivenClock()
		rest(ctx, clock, time.Hour)
		if got := clock.pending(); got != 0 {
			t.Errorf("%d timers are left, want none", got)
		}
	})
}
