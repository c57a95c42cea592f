package storage

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMoment writes each number to one database and then to another, while both are
// copied: the second copy must have as many as the first, or one fewer. It does so while the
// moment is looked for beside the writers, and while these wait.
func TestMoment(t *testing.T) {
	for name, attempts := range map[string]int{"beside": 100 * undisturbedAttempts, "alone": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testMoment(t, attempts)
		})
	}
}

func testMoment(t *testing.T, attempts int) {
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")}
	var writers []*sql.DB
	for _, path := range paths {
		execute(t, path, `PRAGMA journal_mode = WAL`, `CREATE TABLE n (i INTEGER PRIMARY KEY)`)
		db := OpenPool(path, 1, forAll+forWriter)
		defer db.Close()
		writers = append(writers, db)
	}
	ctx, stop := context.WithCancel(t.Context())
	var written atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; ctx.Err() == nil; i++ {
			for _, db := range writers {
				if _, err := db.Exec(`INSERT INTO n (i) VALUES (?)`, i); err != nil {
					t.Error(err)
					return
				}
			}
			written.Store(int64(i))
		}
	}()
	for round := range 20 {
		checkMoment(t, dir, paths, attempts, round, &written)
	}
	stop()
	<-done
}

func checkMoment(t *testing.T, dir string, paths []string, attempts, round int, written *atomic.Int64) {
	t.Helper()
	m, err := beginMoment(t.Context(), paths, attempts)
	must(t, err)
	before := written.Load()
	for written.Load() < before+3 && !t.Failed() { // changes after the moment, which no copy may have
		runtime.Gosched()
	}
	var counts [2]int64
	for i, path := range paths {
		target := filepath.Join(dir, string(rune('a'+round))+filepath.Base(path))
		must(t, m.Copy(t.Context(), path, target), QuickCheck(t.Context(), target))
		must(t, View(t.Context(), target, func(db *sql.DB) error {
			return db.QueryRow(`SELECT count(*) FROM n`).Scan(&counts[i])
		}))
	}
	must(t, m.Close())
	if d := counts[0] - counts[1]; d < 0 || d > 1 || counts[0] > before+1 {
		t.Errorf("round %d: the copies have %d and %d rows, %d were written at the moment", round, counts[0], counts[1], before)
	}
}

// TestMomentIsDisturbed writes each number to one database and then to another while moments are
// looked for: where one is reported, the second database has as many as the first, or one fewer.
func TestMomentIsDisturbed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")}
	m := &Moment{conns: map[string]*sql.Conn{}, watchers: map[string]*sql.Conn{}}
	burst := make(chan struct{}, 1)
	var writing sync.WaitGroup
	defer writing.Wait()
	defer close(burst)
	var inserts []func() error
	for _, path := range paths {
		execute(t, path, `PRAGMA journal_mode = WAL`, `CREATE TABLE n (i INTEGER PRIMARY KEY)`)
		must(t, m.open(t.Context(), path))
		db := OpenPool(path, 1, forAll+"_pragma=synchronous(OFF)")
		t.Cleanup(func() { must(t, db.Close()) })
		insert, err := db.Prepare(`INSERT INTO n DEFAULT VALUES`)
		must(t, err)
		inserts = append(inserts, func() error { _, err := insert.Exec(); return err })
	}
	writing.Go(func() {
		for range burst {
			for range 20 {
				if err := errors.Join(inserts[0](), inserts[1]()); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	count := func(path string) (n int) {
		must(t, m.conns[path].QueryRowContext(t.Context(), `SELECT count(*) FROM n`).Scan(&n))
		return n
	}
	for disturbed, begun := 0, 0; (disturbed < 50 || begun < 50) && !t.Failed(); {
		select {
		case burst <- struct{}{}:
		default:
		}
		undisturbed, err := m.beginBeside(t.Context(), paths)
		must(t, err)
		if !undisturbed {
			disturbed++
			continue
		}
		begun++
		if a, b := count(paths[0]), count(paths[1]); a != b && a != b+1 {
			t.Fatalf("moment %d: the databases have %d and %d rows", begun, a, b)
		}
		must(t, m.rollback())
	}
	must(t, m.Close())
}

// TestMomentBesideWriters begins a moment while a transaction writes to each database, and others
// of this process wait for that: the moment waits for none, and has nothing of what was not
// committed.
func TestMomentBesideWriters(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, name := range []string{"a.db", "b.db"} {
		path := filepath.Join(t.TempDir(), name)
		f, err := Open(t.Context(), path, notes, slog.New(slog.DiscardHandler))
		must(t, err, f.Lock(t.Context()))
		w := f.Writer(Full)
		tx, err := w.Begin()
		must(t, err)
		_, err = tx.Exec(`CREATE TABLE n (i INTEGER PRIMARY KEY)`)
		must(t, err)
		defer func() {
			must(t, tx.Rollback(), w.Close())
			f.Unlock()
			must(t, f.Close())
		}()
		paths = append(paths, path)
	}
	m, err := BeginMoment(t.Context(), paths)
	must(t, err)
	for _, path := range paths {
		target := path + ".copy"
		must(t, m.Copy(t.Context(), path, target))
		if n, err := Scan(t.Context(), target, `SELECT count(*) FROM sqlite_schema WHERE name = 'n'`); n != "0" || err != nil {
			t.Errorf("%s: got %s, %v", target, n, err)
		}
	}
	must(t, m.Close())
}

// TestMomentHoldsWriters has BeginMoment wait for a writer of the second database: then
// the first has no other writer, and the moment includes what was committed meanwhile.
func TestMomentHoldsWriters(t *testing.T) {
	t.Parallel()
	paths := []string{filepath.Join(t.TempDir(), "a.db"), filepath.Join(t.TempDir(), "b.db")}
	for _, path := range paths {
		execute(t, path, `PRAGMA journal_mode = WAL`, `CREATE TABLE n (i INTEGER PRIMARY KEY)`)
	}
	first, second := OpenPool(paths[0], 1, "_txlock=immediate"), OpenPool(paths[1], 1, forAll+forWriter)
	defer first.Close()
	defer second.Close()
	tx, err := second.Begin()
	must(t, err)
	begun := make(chan error, 1)
	var m *Moment
	go func() {
		var err error
		m, err = beginMoment(t.Context(), paths, 0)
		begun <- err
	}()
	for held := false; !held; runtime.Gosched() {
		select {
		case err := <-begun:
			t.Fatalf("the moment began beside a writer: %v", err)
		default:
		}
		other, err := first.Begin()
		if held = err != nil; !held {
			must(t, other.Rollback())
		}
	}
	_, err = tx.Exec(`INSERT INTO n (i) VALUES (1)`)
	must(t, err, tx.Commit(), <-begun)
	var count int
	must(t, m.conns[paths[1]].QueryRowContext(t.Context(), `SELECT count(*) FROM n`).Scan(&count), m.Close())
	if count != 1 {
		t.Errorf("got %d rows, want the one that was committed", count)
	}
}

// TestMomentWaitsForTheLock has a moment wait in the order of the writers of an open file:
// SQLite itself would let a writer win for ever that begins again as soon as it has ended.
func TestMomentWaitsForTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	f, err := Open(t.Context(), path, notes, slog.New(slog.DiscardHandler))
	must(t, err, f.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error, 1)
	go func() {
		m, err := beginMoment(ctx, []string{path}, 0)
		if err == nil {
			err = m.Close()
		}
		begun <- err
	}()
	select {
	case err := <-begun:
		t.Fatalf("the moment began beside a writer: %v", err)
	case <-time.After(200 * time.Millisecond): // in which it begins if it does not wait
	}
	cancel()
	if err := <-begun; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.Unlock()
	m, err := BeginMoment(t.Context(), []string{path})
	must(t, err, m.Close(), f.Lock(t.Context()))
	f.Unlock()
	must(t, f.Close())
}

// TestMomentBoundsTheLog ends a copy while which too much is written.
func TestMomentBoundsTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.db")
	execute(t, path, `PRAGMA journal_mode = WAL`, `CREATE TABLE n (i INTEGER PRIMARY KEY)`)
	m, err := BeginMoment(t.Context(), []string{path})
	must(t, err)
	m.maxLog = 1 << 10
	w := OpenPool(path, 1, forAll+forWriter)
	_, err = w.Exec(`INSERT INTO n (i) VALUES (1)`)
	must(t, err)
	if err := m.Copy(t.Context(), path, filepath.Join(dir, "copy")); err == nil || !strings.Contains(err.Error(), "write-ahead log") {
		t.Errorf("got %v", err)
	}
	must(t, m.Close(), w.Close())
}
