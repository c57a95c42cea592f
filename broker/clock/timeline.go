package clock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"signalbox/broker/storage"
)

// Timeline is the service time of one database, whose tables hold times by it. It goes
// on where it was when the database was last open. All methods are safe for concurrent
// use.
//
// A nil Timeline is the time of day, for what has no database.
type Timeline struct {
	clock  *Clock
	file   *storage.File
	db     *sql.DB
	name   string       // of the file, for the log
	offset atomic.Int64 // nanoseconds from the clock's service time to that of the database
	failed atomic.Bool  // whether the last write has failed

	end   context.CancelFunc // ends keep
	ended chan struct{}      // closed then
}

// The table is a part of the schema of each database that has a Timeline:
//
//	CREATE TABLE clock (
//		id      INTEGER PRIMARY KEY CHECK (id = 1),
//		service INTEGER NOT NULL,
//		wall    INTEGER NOT NULL,
//		boot    TEXT NOT NULL,
//		booted  INTEGER NOT NULL
//	) STRICT;
const (
	readStamp  = `SELECT service, wall, boot, booted FROM clock WHERE id = 1`
	writeStamp = `
		INSERT INTO clock (id, service, wall, boot, booted) VALUES (1, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET service = excluded.service, wall = excluded.wall, boot = excluded.boot, booted = excluded.booted`
)

// stamp is one moment by all clocks, in milliseconds.
type stamp struct {
	service, wall int64
	boot          string // "" where it is not known
	booted        int64
}

// Open returns the Timeline of a database, which must stay open until it is closed. The
// time is stored soon after the time of day was set or the machine was suspended, once
// a minute, and by Close.
func (c *Clock) Open(ctx context.Context, f *storage.File) (*Timeline, error) {
	t := &Timeline{clock: c, file: f, db: f.Writer(storage.Full), name: filepath.Base(f.Path()), ended: make(chan struct{})}
	var last stamp
	switch err := t.db.QueryRowContext(ctx, readStamp).Scan(&last.service, &last.wall, &last.boot, &last.booted); {
	case errors.Is(err, sql.ErrNoRows): // its times are the time of day so far
	case err != nil:
		err = fmt.Errorf("read the clock of %s: %w", f.Path(), err)
		return nil, errors.Join(storage.Explain(f.Path(), err), t.db.Close())
	default:
		t.resume(last)
	}
	t.write(ctx)
	life, end := context.WithCancel(context.Background())
	t.end = end
	go t.keep(life)
	return t, nil
}

// resume goes on from a stamp. Within the same boot of the machine it is known how much
// time has passed; otherwise the time of day decides, but never that it went back.
func (t *Timeline) resume(last stamp) {
	id, since := t.clock.sources.boot()
	wall := t.clock.sources.Wall().UnixMilli()
	shown := wall - last.wall
	passed := max(shown, 0)
	if booted := since.Milliseconds(); id != "" && id == last.boot && booted >= last.booted {
		passed = booted - last.booted
	}
	now := t.clock.Now()
	offset := time.UnixMilli(last.service + passed).Sub(now)
	if offset.Abs() > jumpSize {
		t.offset.Store(int64(offset))
	}
	if by := time.Duration(shown-passed) * time.Millisecond; by.Abs() > jumpSize {
		t.clock.log.Warn("the machine's clock was set while the service was stopped; sessions and messages expire when their time has passed, whatever it shows",
			slog.String("database", t.name), slog.Duration("by", by))
	}
}

// Now returns the service time of the database.
func (t *Timeline) Now() time.Time {
	if t == nil {
		return time.Now()
	}
	return t.clock.Now().Add(time.Duration(t.offset.Load()))
}

// Offset returns how many milliseconds the service time of the database is ahead of the
// clock's.
func (t *Timeline) Offset() int64 {
	if t == nil {
		return 0
	}
	return time.Duration(t.offset.Load()).Milliseconds()
}

// In returns a service time of the clock, in epoch milliseconds, as that of the
// database. 0, which is no time, stays 0.
func (t *Timeline) In(ms int64) int64 {
	if ms == 0 {
		return 0
	}
	return ms + t.Offset()
}

// Out returns what In was given.
func (t *Timeline) Out(ms int64) int64 {
	if ms == 0 {
		return 0
	}
	return ms - t.Offset()
}

// Wall returns what the time of day would be at a service time of the database, as it
// is set now, both in epoch milliseconds. 0 stays 0.
func (t *Timeline) Wall(ms int64) int64 {
	if ms == 0 {
		return 0
	}
	return ms + t.Shift()
}

// Shift returns how many milliseconds the time of day is ahead of the service time of the
// database, as it is set now.
func (t *Timeline) Shift() int64 {
	if t == nil {
		return 0
	}
	return time.Duration(t.clock.shift.Load()).Milliseconds() - t.Offset()
}

// Follow has the database go on by the service time of another node whose times are
// stored in it. It reports whether that differs by more than moments.
func (t *Timeline) Follow(ctx context.Context, now time.Time) (moved bool) {
	if now.Sub(t.Now()).Abs() <= jumpSize {
		return false
	}
	t.offset.Store(int64(now.Sub(t.clock.Now())))
	t.write(ctx)
	return true
}

// writeEvery is how often the time is stored where nothing happens to it. After a loss
// of power no more than that can be wrong, if the time of day went back meanwhile.
const writeEvery = time.Minute

// keep stores the time until the context ends.
func (t *Timeline) keep(ctx context.Context) {
	defer close(t.ended)
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	for known, waited := t.clock.turns.Load(), time.Duration(0); ; {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
		waited += lookEvery
		if turns := t.clock.turns.Load(); turns != known || waited >= writeEvery {
			t.write(ctx)
			known, waited = turns, 0
		}
	}
}

// Close stores the time once more. The file is closed afterwards.
func (t *Timeline) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.end()
	<-t.ended
	t.write(ctx)
	return t.db.Close()
}

// write stores the time. Where that fails, what is stored still holds: until the machine
// is started anew exactly, and afterwards by the time of day.
func (t *Timeline) write(ctx context.Context) {
	if t.clock.deferred.Load() {
		return
	}
	err := t.store(ctx)
	switch failed := err != nil && ctx.Err() == nil; {
	case failed && !t.failed.Swap(true):
		t.clock.log.Warn("the time could not be stored", slog.String("database", t.name), slog.Any("error", err))
	case err == nil:
		t.failed.Store(false)
	}
}

func (t *Timeline) store(ctx context.Context) error {
	if err := t.file.Lock(ctx); err != nil {
		return err
	}
	defer t.file.Unlock()
	id, since := t.clock.sources.boot()
	wall := t.clock.sources.Wall().UnixMilli()
	_, err := t.db.ExecContext(ctx, writeStamp, t.Now().UnixMilli(), wall, id, since.Milliseconds())
	return err
}
