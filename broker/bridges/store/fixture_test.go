package store

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
	"signalbox/broker/storage/storagetest"
	"signalbox/scripts/suite"
)

var update = flag.Bool("update", false, "write schema.sql anew")

func TestMain(m *testing.M) {
	if path := os.Getenv(crashPath); path != "" {
		workUntilKilled(path)
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

// sealer seals with a key.
type sealer struct{ cipher.AEAD }

func newSealer(key byte) sealer {
	b, err := aes.NewCipher(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(b)
	if err != nil {
		panic(err)
	}
	return sealer{aead}
}

func (b sealer) Seal(plain, aad []byte) []byte { return b.AEAD.Seal(nil, nil, plain, aad) }

func (b sealer) Unseal(sealed, aad []byte) ([]byte, error) {
	plain, err := b.Open(nil, nil, sealed, aad)
	if err != nil {
		return nil, errors.New("it was sealed with another key")
	}
	return plain, nil
}

// open opens the store of a directory. The caller must close it with shut.
func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	if o.Seal == nil {
		o.Seal = newSealer(1)
	}
	s, err := Open(context.Background(), filepath.Join(dir, "bridges.db"), o)
	must(t, err)
	return s
}

// fresh opens an empty store and shuts it at the end of the test.
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

var document = []byte(`{"connections":[]}`)

// wide are bounds that no test reaches.
var wide = bridges.Bounds{Messages: 1 << 40, Bytes: 1 << 50, DeadLetters: 1000}

// connect configures exactly these connections of bridge "x" of broker "b".
func connect(t testing.TB, s *Store, names ...string) {
	t.Helper()
	must(t, s.PutConfig(context.Background(), "b", "x", document, names))
}

// queueOf opens the queue of a connection.
func queueOf(t testing.TB, s *Store, connection string, b bridges.Bounds) *Queue {
	t.Helper()
	q, err := s.Queue(context.Background(), "b", "x", connection, b)
	must(t, err)
	return q.(*Queue)
}

// onlyQueue creates the queue of the only connection.
func onlyQueue(t testing.TB, s *Store, b bridges.Bounds) *Queue {
	t.Helper()
	connect(t, s, "c")
	return queueOf(t, s, "c", b)
}

// entry returns an entry whose payload is its number.
func entry(n int) bridges.Entry {
	return bridges.Entry{Mapping: "m", Message: messaging.Message{
		Topic: "t/1", Payload: fmt.Appendf(nil, "payload %d", n), QoS: byte(n % 3), At: int64(n), ClientID: "c",
	}}
}

// putAsync puts an entry and returns a channel that receives its outcome.
func putAsync(t testing.TB, q *Queue, e bridges.Entry) <-chan error {
	t.Helper()
	settled := make(chan error, 1)
	q.Put(e, func(err error) { settled <- err })
	return settled
}

// putAll puts entries with a range of numbers, and waits until they are settled.
func putAll(t testing.TB, q *Queue, from, to int) {
	t.Helper()
	var last <-chan error
	for n := from; n < to; n++ {
		last = putAsync(t, q, entry(n))
	}
	must(t, <-last)
}

// peek returns all entries after an ID.
func peek(t testing.TB, q *Queue, after uint64) (all []*bridges.Entry) {
	t.Helper()
	for {
		list, err := q.Peek(context.Background(), after, 100, 1<<20)
		must(t, err)
		if len(list) == 0 {
			return all
		}
		all = append(all, list...)
		after = list[len(list)-1].ID
	}
}

// numbers returns the numbers of entries.
func numbers(list []*bridges.Entry) []int {
	all := []int{}
	for _, e := range list {
		all = append(all, int(e.At))
	}
	return all
}

// wantHeld compares the numbers of the stored entries.
func wantHeld(t testing.TB, q *Queue, want ...int) {
	t.Helper()
	list := peek(t, q, 0)
	if diff := cmp.Diff(want, numbers(list)); diff != "" && len(want)+len(list) > 0 {
		t.Errorf("held messages (-want +got):\n%s", diff)
	}
	if !slices.IsSortedFunc(list, func(a, b *bridges.Entry) int { return int(a.ID) - int(b.ID) }) {
		t.Error("not in order of their IDs")
	}
	barrier(t, q)
	if u := q.Usage(); u.Messages != int64(len(want)) {
		t.Errorf("usage says %d messages, want %d", u.Messages, len(want))
	}
}

// upTo returns a range of numbers.
func upTo(from, to int) (all []int) {
	for n := from; n < to; n++ {
		all = append(all, n)
	}
	return all
}

// ids returns the IDs of the entries with some numbers.
func ids(t testing.TB, q *Queue, numbers ...int) (all []uint64) {
	t.Helper()
	for _, e := range peek(t, q, 0) {
		if slices.Contains(numbers, int(e.At)) {
			all = append(all, e.ID)
		}
	}
	return all
}

// barrier waits until everything that was put has an outcome.
func barrier(t testing.TB, q *Queue) {
	t.Helper()
	must(t, q.do(context.Background(), func(*committer) error { return nil }))
}

// remove removes the entries with some numbers, durably.
func remove(t testing.TB, q *Queue, numbers ...int) {
	t.Helper()
	q.Remove(ids(t, q, numbers...))
	barrier(t, q)
}

// reject makes dead letters from the entries with some numbers.
func reject(t testing.TB, q *Queue, reason string, numbers ...int) {
	t.Helper()
	var list []bridges.Rejection
	for _, id := range ids(t, q, numbers...) {
		list = append(list, bridges.Rejection{ID: id, Reason: reason, Attempts: 3, At: time.UnixMilli(5000)})
	}
	must(t, q.Reject(context.Background(), list))
}

// checkStore checks the file, and that memory and file agree.
func checkStore(t testing.TB, s *Store) {
	t.Helper()
	ctx := context.Background()
	var verdict string
	must(t, s.reader.db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&verdict))
	if verdict != "ok" {
		t.Errorf("the file is damaged: %s", verdict)
	}
	checkMemory(t, s)
}

// checkMemory checks that memory and file agree on the stored entries.
func checkMemory(t testing.TB, s *Store) {
	t.Helper()
	ctx := context.Background()
	s.queues.mu.RLock()
	journals := slices.Collect(maps.Values(s.queues.byID))
	s.queues.mu.RUnlock()
	for _, j := range journals {
		if j.deleted.Load() { // and was purged meanwhile
			continue
		}
		var counted, summed sums
		scan := func(q string, places ...any) {
			t.Helper()
			must(t, s.reader.db.QueryRowContext(ctx, q, j.queue).Scan(places...))
		}
		scan(`SELECT messages, bytes, next, dead, dead_bytes FROM queue WHERE id = ?`,
			&counted.messages, &counted.bytes, &counted.next, &counted.dead, &counted.deadBytes)
		var goneMessages, goneBytes, strays int64
		scan(`SELECT coalesce(sum(count), 0), coalesce(sum(bytes), 0) FROM block WHERE id >> 43 = ?`, &summed.messages, &summed.bytes)
		scan(`SELECT coalesce(sum(count), 0), coalesce(sum(bytes), 0) FROM removed WHERE block >> 43 = ?`, &goneMessages, &goneBytes)
		scan(`SELECT count(*), coalesce(sum(bytes), 0) FROM dead WHERE id >> 43 = ?`, &summed.dead, &summed.deadBytes)
		scan(`SELECT count(*) FROM removed WHERE block >> 43 = ? AND block NOT IN (SELECT id FROM block)`, &strays)
		summed.messages -= goneMessages
		summed.bytes -= goneBytes
		got, _ := j.snapshot()
		if counted.next < got.next {
			t.Errorf("queue %d: the file reserves IDs before %d, and %d is the next", j.queue, counted.next, got.next)
		}
		counted.next, summed.next = got.next, got.next
		if got != counted || got != summed || strays != 0 {
			t.Errorf("queue %d: memory says %+v, the queue %+v, the rows %+v, with %d strays", j.queue, got, counted, summed, strays)
		}
	}
}

// elapse advances the time of a synctest bubble.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// within executes a statement on the committer's connection, while the committer waits.
func within(t testing.TB, s *Store, q string) {
	t.Helper()
	_, err := s.conn.SQL().ExecContext(context.Background(), q)
	must(t, err)
}

// toText returns a logger that writes warnings and errors.
func toText(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
