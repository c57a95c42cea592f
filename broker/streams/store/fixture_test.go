package store

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
	"signalbox/scripts/suite"
)

var update = flag.Bool("update", false, "write schema.sql anew")

func TestMain(m *testing.M) {
	if path := os.Getenv(crashPath); path != "" {
		appendUntilKilled(path)
		return
	}
	suite.Main(m)
}

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// open opens the store of a directory. The caller shuts it.
func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), filepath.Join(dir, "streams.db"), o)
	must(t, err)
	return s
}

// fresh opens an empty store and shuts it with the test.
func fresh(t testing.TB, o Options) *Store {
	t.Helper()
	s := open(t, t.TempDir(), o)
	t.Cleanup(func() { shut(t, s) })
	return s
}

func shut(t testing.TB, s *Store) {
	t.Helper()
	must(t, s.Close(context.Background()))
}

// reopen closes a store and opens it again, until the end of the test.
func reopen(t testing.TB, s *Store, o Options) *Store {
	t.Helper()
	shut(t, s)
	again := open(t, filepath.Dir(s.file.Path()), o)
	t.Cleanup(func() { shut(t, again) })
	return again
}

// define stores a stream of broker "b".
func define(t testing.TB, s *Store, streamname string, ttl int64) int64 {
	t.Helper()
	id, err := s.Put(context.Background(), "b", streams.Definition{Stream: broker.Stream{StreamName: streamname, TTL: ttl}})
	must(t, err)
	return id
}

// kept opens the log of a stream.
func kept(t testing.TB, s *Store, id int64) *Log {
	t.Helper()
	l, err := s.Open(context.Background(), id)
	must(t, err)
	return l.(*Log)
}

// stream defines a stream and opens its log.
func stream(t testing.TB, s *Store, streamname string, ttl int64) *Log {
	t.Helper()
	return kept(t, s, define(t, s, streamname, ttl))
}

// everything is the range of all times.
var everything = streams.Range{From: math.MinInt64, To: math.MaxInt64}

// messages makes some, a millisecond apart.
func messages(at int64, n int) (all []messaging.Message) {
	for i := range int64(n) {
		all = append(all, messaging.Message{Topic: "t/1", Payload: fmt.Appendf(nil, "payload %d", at+i), QoS: byte(i % 3), At: at + i})
	}
	return all
}

// hand appends messages and gives what will tell what became of them.
func hand(t testing.TB, l *Log, ms ...messaging.Message) <-chan error {
	t.Helper()
	settled := make(chan error, 1)
	must(t, l.Append(context.Background(), ms, nil, func(err error) { settled <- err }))
	return settled
}

// keep appends messages and waits until they are stored.
func keep(t testing.TB, l *Log, ms ...messaging.Message) {
	t.Helper()
	must(t, <-hand(t, l, ms...))
}

// read gives the messages of a range.
func read(t testing.TB, l *Log, r streams.Range, reverse bool) (all []messaging.Message) {
	t.Helper()
	must(t, l.Read(context.Background(), r, reverse, func(m messaging.Message) bool {
		all = append(all, m)
		return true
	}))
	return all
}

// wantTimes compares the times of what is kept, and what is counted, with what
// is wanted.
func wantTimes(t testing.TB, l *Log, want ...int64) {
	t.Helper()
	got := []int64{}
	for _, m := range read(t, l, everything, false) {
		got = append(got, m.At)
	}
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("kept messages (-want +got):\n%s", diff)
	}
	n, err := l.Count(context.Background(), everything)
	must(t, err)
	if n != int64(len(want)) {
		t.Errorf("counted %d messages, want %d", n, len(want))
	}
}

// times gives numbers from one up to and without another.
func times(from, to int64) (all []int64) {
	for at := from; at < to; at++ {
		all = append(all, at)
	}
	return all
}

// sound checks the file, and that memory and file agree on what is kept.
func sound(t testing.TB, s *Store) {
	t.Helper()
	ctx := context.Background()
	var verdict string
	must(t, s.reading.db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&verdict))
	if verdict != "ok" {
		t.Errorf("the file is damaged: %s", verdict)
	}
	for _, j := range slices.Collect(s.books.all()) {
		var counted, summed tally
		must(t, s.reading.db.QueryRowContext(ctx, `SELECT messages, bytes, next, last_at FROM log WHERE stream = ?`, j.stream).
			Scan(&counted.messages, &counted.bytes, &counted.next, &counted.lastAt))
		summed = counted
		must(t, s.reading.db.QueryRowContext(ctx, `SELECT coalesce(sum(count), 0), coalesce(sum(length(messages)), 0) FROM block WHERE id >> 40 = ?`, j.stream).
			Scan(&summed.messages, &summed.bytes))
		got, _ := j.look()
		front, _ := s.reading.probe(ctx, blockID(j.stream, 0), blockID(j.stream+1, 0))
		if got.front != front {
			t.Errorf("stream %d is said to begin with %+v and begins with %+v", j.stream, got.front, front)
		}
		got.front = block{}
		if got != counted || got != summed {
			t.Errorf("stream %d: memory says %+v, the log %+v, the blocks %+v", j.stream, got, counted, summed)
		}
	}
}

// elapse lets time pass within a bubble, and all that happens in it.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// within runs a statement on the committer's own connection, while that waits.
func within(t testing.TB, s *Store, q string) {
	t.Helper()
	_, err := s.conn.SQL().ExecContext(context.Background(), q)
	must(t, err)
}

// dirOf gives the directory of a store.
func dirOf(s *Store) string { return filepath.Dir(s.file.Path()) }

// wasError leaves out all but the error.
func wasError(_ any, err error) error { return err }

// toText makes a log that writes what is at least a warning.
func toText(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
