package clock_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/broker/storage"
)

const schema = `-- +goose Up
CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), service INTEGER NOT NULL, wall INTEGER NOT NULL,
	boot TEXT NOT NULL, booted INTEGER NOT NULL) STRICT;`

// process is a run of the service on a machine and a database.
type process struct {
	*clock.Timeline
	t     *testing.T
	clock *clock.Clock
	file  *storage.File
	path  string
}

// begin starts one. It ends by stop.
func begin(t *testing.T, m *clocktest.Machine, path string) *process {
	t.Helper()
	layout := storage.Layout{Name: "the test's database", Migrations: fstest.MapFS{"0001_clock.sql": {Data: []byte(schema)}}}
	f, err := storage.Open(t.Context(), path, layout, slog.New(slog.DiscardHandler))
	must(t, err)
	c := clock.New(m.Sources(), slog.New(slog.DiscardHandler))
	line, err := c.Open(t.Context(), f)
	must(t, err)
	return &process{line, t, c, f, path}
}

func (p *process) stop() {
	p.t.Helper()
	must(p.t, p.Close(context.Background()), p.file.Close())
}

// TestRestart goes on with service time where it was, plus what has passed meanwhile.
func TestRestart(t *testing.T) {
	t.Parallel()
	const off = 3 * time.Hour
	for name, tc := range map[string]struct {
		meanwhile func(*clocktest.Machine)
		want      time.Duration
	}{
		"the process":                         {func(m *clocktest.Machine) { m.Pass(off) }, off},
		"the process, set back":               {func(m *clocktest.Machine) { m.Pass(off); m.Step(-400 * day) }, off},
		"the process, set forward":            {func(m *clocktest.Machine) { m.Step(400 * day); m.Pass(off) }, off},
		"the process, suspended":              {func(m *clocktest.Machine) { m.Pass(off); m.Suspend(off) }, 2 * off},
		"the machine":                         {func(m *clocktest.Machine) { m.Restart(off) }, off},
		"the machine, set back":               {func(m *clocktest.Machine) { m.Restart(off); m.Step(-400 * day) }, 0},
		"the machine, without a clock inside": {func(m *clocktest.Machine) { m.Restart(-20000 * day) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := clocktest.New(), filepath.Join(t.TempDir(), "test.db")
			p := begin(t, m, path)
			from := p.Now()
			m.Pass(time.Minute)
			p.stop()
			tc.meanwhile(m)
			p = begin(t, m, path)
			defer p.stop()
			wantPassed(t, from.Truncate(time.Millisecond), p.Now().Truncate(time.Millisecond), time.Minute+tc.want)
			if got, want := p.Wall(p.Now().UnixMilli()), m.Sources().Wall().UnixMilli(); got != want {
				t.Errorf("it is %d of the day, want %d", got, want)
			}
			if now := p.clock.Now().UnixMilli(); p.In(now) != p.Now().UnixMilli() || p.Out(p.In(now)) != now {
				t.Errorf("%d is %d of the database, and back %d", now, p.In(now), p.Out(p.In(now)))
			}
		})
	}
}

// TestStepBeforeRestart sets the time of day while the process runs, and then starts the
// machine anew: the time of day shows how long it was off, and no more than that.
func TestStepBeforeRestart(t *testing.T) {
	t.Parallel()
	for name, by := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, path := clocktest.New(), filepath.Join(t.TempDir(), "test.db")
			p := begin(t, m, path)
			from := p.Now()
			for range 3 {
				m.Step(by)
				p.clock.Look()
				m.Pass(time.Minute)
				p.stop()
				m.Restart(time.Minute)
				p = begin(t, m, path)
			}
			defer p.stop()
			wantPassed(t, from, p.Now(), 6*time.Minute)
		})
	}
}

// TestFollow goes on by the time of another node, also after a restart.
func TestFollow(t *testing.T) {
	t.Parallel()
	m, path := clocktest.New(), filepath.Join(t.TempDir(), "test.db")
	p := begin(t, m, path)
	there := p.Now().Add(-400 * day)
	if p.Follow(t.Context(), p.Now().Add(time.Second)) || !p.Follow(t.Context(), there) {
		t.Error("a second was followed, or 400 days were not")
	}
	m.Pass(time.Hour)
	p.stop()
	m.Restart(time.Hour)
	p = begin(t, m, path)
	defer p.stop()
	wantPassed(t, there, p.Now(), 2*time.Hour)
}

// TestFirst takes the time of day for the service time of a database without one.
func TestFirst(t *testing.T) {
	t.Parallel()
	m := clocktest.New()
	p := begin(t, m, filepath.Join(t.TempDir(), "test.db"))
	defer p.stop()
	if got, want := p.Now(), m.Sources().Wall(); !got.Equal(want) || p.Offset() != 0 {
		t.Errorf("it is %v, want %v", got, want)
	}
}

// TestDefer leaves a database as it was until a start has succeeded.
func TestDefer(t *testing.T) {
	t.Parallel()
	m, path := clocktest.New(), filepath.Join(t.TempDir(), "test.db")
	layout := storage.Layout{Name: "the test's database", Migrations: fstest.MapFS{"0001_clock.sql": {Data: []byte(schema)}}}
	run := func(begins bool) (changed bool) {
		f, err := storage.Open(t.Context(), path, layout, slog.New(slog.DiscardHandler))
		must(t, err)
		before, err := os.ReadFile(path)
		must(t, err)
		c := clock.New(m.Sources(), slog.New(slog.DiscardHandler))
		begin := c.Defer()
		line, err := c.Open(t.Context(), f)
		must(t, err)
		m.Pass(time.Hour)
		if begins {
			begin()
		}
		must(t, line.Close(t.Context()), f.Close())
		after, err := os.ReadFile(path)
		must(t, err)
		return !bytes.Equal(before, after)
	}
	for range 2 {
		if !run(true) {
			t.Error("the time was not stored")
		}
		if run(false) {
			t.Error("a start that was refused has changed the database")
		}
	}
}
