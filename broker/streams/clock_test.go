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

// drivenClock is a clock that tests advance.
type drivenClock struct {
	armed chan time.Duration // receives the duration of every wait that begins

	mu     sync.Mutex // guards the fields below
	now    time.Time
	timers []timer
}

type timer struct {
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
	a := timer{due: make(chan time.Time, 1)}
	c.mu.Lock()
	a.at = c.now.Add(d)
	c.timers = append(c.timers, a)
	c.mu.Unlock()
	c.armed <- d
	return a.due, func() { c.remove(a) }
}

func (c *drivenClock) remove(a timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers = slices.DeleteFunc(c.timers, func(b timer) bool { return a.due == b.due })
}

// advance advances the time, and fires the timers that are due.
func (c *drivenClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for _, a := range c.timers {
		if !a.at.After(c.now) {
			select {
			case a.due <- c.now:
			default: // it has fired
			}
		}
	}
}

// pending returns the number of timers that have not been stopped.
func (c *drivenClock) pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// wantWait compares the duration of the next wait.
func (c *drivenClock) wantWait(t *testing.T, want time.Duration) {
	t.Helper()
	if got := receive(t, c.armed); got != want {
		t.Fatalf("waits for %v, want %v", got, want)
	}
}

// receive returns the next value of a channel, or fails the test.
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

func TestSleep(t *testing.T) {
	t.Parallel()
	t.Run("lasts as long as it is to", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			begun := realClock{}.Now()
			if !sleep(t.Context(), realClock{}, time.Hour) {
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
			if sleep(ctx, realClock{}, time.Hour) {
				t.Error("got true, want false")
			}
		})
	})
	t.Run("lets go of its timer", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		clock := newDrivenClock()
		sleep(ctx, clock, time.Hour)
		if got := clock.pending(); got != 0 {
			t.Errorf("%d timers are left, want none", got)
		}
	})
}
