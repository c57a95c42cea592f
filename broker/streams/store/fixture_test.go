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
	"signalbox/broker/storage/storagetest"
	"signalbox/broker/streams"
	"signalbox/scripts/suite"
)

var update = flag.Bool("update", false, "write schema.sql anew")

func TestMain(m *testing.M) {
	if path := os.Getenv(crashPath); path != "" {
		appendUntilKilled(path)
		return
	}
	if storagetest.RunProcess(user) {
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

// open opens the store of a directory. The caller closes it.
func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), filepath.Join(dir, "streams.db"), o)
	must(t, err)
	return s
}

// fresh opens an empty store and closes it at the end of the test.
func fresh(t testing.TB, o Options) *Store {
	t.Helper()
	s := open(t, t.TempDir(), o)
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	must(t, s.Close(context.Background()))
}

// reopen closes a store and opens it again until the end of the test.
func reopen(t testing.TB, s *Store, o Options) *Store {
	t.Helper()
	closeStore(t, s)
	again := open(t, filepath.Dir(s.file.Path()), o)
	t.Cleanup(func() { closeStore(t, again) })
	return again
}

// define stores a stream of broker "b".
func define(t testing.TB, s *Store, streamname string, ttl int64) int64 {
	t.Helper()
	id, err := s.Put(context.Background(), "b", streams.Definition{Stream: broker.Stream{StreamName: streamname, TTL: ttl}})
	must(t, err)
	return id
}

// openLog opens the log of a stream.
func openLog(t testing.TB, s *Store, id int64) *Log {
	t.Helper()
	l, err := s.Open(context.Background(), id)
	must(t, err)
	return l.(*Log)
}

// stream defines a stream and opens its log.
func stream(t testing.TB, s *Store, streamname string, ttl int64) *Log {
	t.Helper()
	return openLog(t, s, define(t, s, streamname, ttl))
}

// allTimes is the range of all times.
var allTimes = streams.Range{From: math.MinInt64, To: math.MaxInt64}

// messages returns n messages, one millisecond apart.
func messages(at int64, n int) (all []messaging.Message) {
	for i := range int64(n) {
		all = append(all, messaging.Message{Topic: "t/1", Payload: fmt.Appendf(nil, "payload %d", at+i), QoS: byte(i % 3), At: at + i})
	}
	return all
}

// appendAsync appends messages and returns a channel of their outcome.
func appendAsync(t testing.TB, l *Log, ms ...messaging.Message) <-chan error {
	t.Helper()
	committed := make(chan error, 1)
	must(t, l.Append(context.Background(), ms, nil, func(err error) { committed <- err }))
	return committed
}

// appendAndWait appends messages and waits until they are stored.
func appendAndWait(t testing.TB, l *Log, ms ...messaging.Message) {
	t.Helper()
	must(t, <-appendAsync(t, l, ms...))
}

// read returns the messages of a range.
func read(t testing.TB, l *Log, r streams.Range, reverse bool) (all []messaging.Message) {
	t.Helper()
	must(t, l.Read(context.Background(), r, reverse, func(m messaging.Message) bool {
		all = append(all, m)
		return true
	}))
	return all
}

// wantTimes compares the times of the messages that are read, and the number
// that is counted, with the expected times.
func wantTimes(t testing.TB, l *Log, want ...int64) {
	t.Helper()
	got := []int64{}
	for _, m := range read(t, l, allTimes, false) {
		got = append(got, m.At)
	}
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("kept messages (-want +got):\n%s", diff)
	}
	n, err := l.Count(context.Background(), allTimes)
	must(t, err)
	if n != int64(len(want)) {
		t.Errorf("counted %d messages, want %d", n, len(want))
	}
}

// times returns the numbers in [from, to).
func times(from, to int64) (all []int64) {
	for at := from; at < to; at++ {
		all = append(all, at)
	}
	return all
}

// checkFile checks the file, and that memory and file agree.
func checkFile(t testing.TB, s *Store) {
	t.Helper()
	ctx := context.Background()
	var verdict string
	must(t, s.reader.db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&verdict))
	if verdict != "ok" {
		t.Errorf("the file is damaged: %s", verdict)
	}
	for _, sl := range slices.Collect(s.logs.all()) {
		var counted, summed totals
		must(t, s.reader.db.QueryRowContext(ctx, `SELECT messages, bytes, next, last_at FROM log WHERE stream = ?`, sl.stream).
			Scan(&counted.messages, &counted.bytes, &counted.next, &counted.lastAt))
		summed = counted
		must(t, s.reader.db.QueryRowContext(ctx, `SELECT coalesce(sum(count), 0), coalesce(sum(length(messages)), 0) FROM block WHERE id >> 40 = ?`, sl.stream).
			Scan(&summed.messages, &summed.bytes))
		got, _ := sl.read()
		front, _ := s.reader.firstBlock(ctx, blockID(sl.stream, 0), blockID(sl.stream+1, 0))
		if got.oldest != front {
			t.Errorf("stream %d is said to begin with %+v and begins with %+v", sl.stream, got.oldest, front)
		}
		got.oldest = block{}
		if got != counted || got != summed {
			t.Errorf("stream %d: memory says %+v, the log %+v, the blocks %+v", sl.stream, got, counted, summed)
		}
	}
}

// elapse advances the time of a synctest bubble and waits for what happens
// meanwhile.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// execOnWriter runs a statement on the connection of the committer, which must
// be idle.
func execOnWriter(t testing.TB, s *Store, q string) {
	t.Helper()
	_, err := s.conn.SQL().ExecContext(context.Background(), q)
	must(t, err)
}

// dirOf returns the directory of a store.
func dirOf(s *Store) string { return filepath.Dir(s.file.Path()) }

// errorOf returns the error of a call with two results.
func errorOf(_ any, err error) error { return err }

// textLogger returns a logger of warnings and errors.
func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
