package clock_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// wantPassed fails the test unless so much service time has passed.
func wantPassed(t *testing.T, from, to time.Time, want time.Duration) {
	t.Helper()
	if got := to.Sub(from); got != want {
		t.Errorf("%v of service time have passed, want %v", got, want)
	}
}

const day = 24 * time.Hour

// steps are by how much the time of day is set.
var steps = map[string]time.Duration{"an hour back": -time.Hour, "an hour forward": time.Hour, "400 days back": -400 * day, "400 days forward": 400 * day}

// TestStep sets the time of day, which service time does not follow.
func TestStep(t *testing.T) {
	t.Parallel()
	for name, by := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, out := clocktest.New(), &bytes.Buffer{}
			c := clock.New(m.Sources(), slog.New(slog.NewTextHandler(out, nil)))
			from := c.Now()
			m.Pass(time.Minute)
			c.Look()
			m.Step(by)
			wantPassed(t, from, c.Now(), time.Minute)
			for range 3 {
				c.Look()
				m.Pass(time.Second)
			}
			wantPassed(t, from, c.Now(), time.Minute+3*time.Second)
			if c.Jumps() != 1 || strings.Count(out.String(), "was set") != 1 || !strings.Contains(out.String(), by.Abs().String()) {
				t.Errorf("%d jumps were noticed, and logged:\n%s", c.Jumps(), out)
			}
			if got, want := c.Wall(c.Now()), m.Sources().Wall(); !got.Equal(want) {
				t.Errorf("it is %v of the day, want %v", got, want)
			}
		})
	}
}

// TestSlew has the time of day run slower or faster than the monotonic clock, or set by
// a moment. Service time follows, never goes back, and nothing of it is logged.
func TestSlew(t *testing.T) {
	t.Parallel()
	for name, tick := range map[string]time.Duration{"slow": -500 * time.Microsecond, "fast": 500 * time.Microsecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, out := clocktest.New(), &bytes.Buffer{}
			c := clock.New(m.Sources(), slog.New(slog.NewTextHandler(out, nil)))
			m.Step(1500 * tick) // 0.75 s
			last := c.Now()
			for i := range 4000 {
				m.Pass(250 * time.Millisecond)
				m.Step(tick / 4)
				if i%4 == 3 {
					c.Look()
				}
				if now := c.Now(); now.Before(last) {
					t.Fatalf("service time went back by %v", last.Sub(now))
				} else {
					last = now
				}
			}
			if off := m.Sources().Wall().Sub(c.Now()); off.Abs() > 20*time.Millisecond {
				t.Errorf("the time of day is %v ahead", off)
			}
			if c.Jumps() != 0 || out.Len() > 0 {
				t.Errorf("%d jumps were noticed, and logged:\n%s", c.Jumps(), out)
			}
		})
	}
}

// TestSuspend has the machine suspended, which counts, and is no jump.
func TestSuspend(t *testing.T) {
	t.Parallel()
	m := clocktest.New()
	c := clock.New(m.Sources(), slog.New(slog.DiscardHandler))
	from := c.Now()
	m.Pass(time.Second)
	m.Suspend(8 * time.Hour)
	c.Look()
	wantPassed(t, from, c.Now(), 8*time.Hour+time.Second)
	m.Pass(time.Second)
	m.Suspend(8 * time.Hour)
	m.Step(-time.Hour) // as where the hardware clock is an hour off
	c.Look()
	wantPassed(t, from, c.Now(), 16*time.Hour+2*time.Second)
	if c.Jumps() != 1 {
		t.Errorf("%d jumps, want 1", c.Jumps())
	}
}

// TestReal reads the clocks of this machine, which are not set meanwhile.
func TestReal(t *testing.T) {
	t.Parallel()
	c := clock.New(clock.Machine(), slog.New(slog.DiscardHandler))
	defer c.Start()()
	before, wall := c.Now(), time.Now()
	c.Look()
	after := c.Now()
	if off := before.Sub(wall).Abs(); off > time.Minute || after.Before(before) {
		t.Errorf("service time is %v off, and went from %v to %v", off, before, after)
	}
}

// TestWatch looks each second, until it is stopped.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := clocktest.New()
		c := clock.New(m.Sources(), slog.New(slog.DiscardHandler))
		stop := c.Start()
		m.Step(time.Hour)
		<-time.After(time.Second)
		synctest.Wait()
		stop()
		m.Step(time.Hour)
		<-time.After(time.Minute)
		if c.Jumps() != 1 {
			t.Errorf("%d jumps, want 1", c.Jumps())
		}
	})
}

// BenchmarkNow is asked for each message.
func BenchmarkNow(b *testing.B) {
	c := clock.New(clock.Machine(), slog.New(slog.DiscardHandler))
	b.Run("service", func(b *testing.B) {
		for b.Loop() {
			_ = c.Now().UnixMilli()
		}
	})
	b.Run("time.Now", func(b *testing.B) {
		for b.Loop() {
			_ = time.Now().UnixMilli()
		}
	})
}
