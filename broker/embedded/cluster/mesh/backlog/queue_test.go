package backlog

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/storage"
)

// open opens the file of a test.
func open(t *testing.T, dir, cluster string) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(dir, "backlog.db"), cluster, slog.New(slog.DiscardHandler))
	must(t, err)
	return s
}

// put appends a message and waits for its outcome.
func put(t *testing.T, q *Queue, data string) (number uint64) {
	t.Helper()
	stored := make(chan error, 1)
	number, err := q.Put([]byte(data), func(err error) { stored <- err })
	must(t, err)
	must(t, <-stored)
	return number
}

// texts returns all messages behind a number.
func texts(t *testing.T, q *Queue, after uint64) (found []string) {
	t.Helper()
	for {
		messages, upTo, err := q.Read(t.Context(), after, 10)
		must(t, err)
		if upTo == after {
			return found
		}
		for _, m := range messages {
			if m.Number <= after || m.Number > upTo {
				t.Fatalf("got message %d behind %d and up to %d", m.Number, after, upTo)
			}
			found = append(found, string(m.Data))
		}
		after = upTo
	}
}

// TestQueue compares the queues of two nodes with naive ones while the file is reopened.
func TestQueue(t *testing.T) {
	t.Parallel()
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	s := open(t, dir, "one")
	type naive struct {
		generation uint64
		numbers    []uint64
		texts      []string
	}
	want := [2]naive{{generation: 1}, {generation: 1}}
	s.Queue(1).Begin(1)
	s.Queue(65_535).Begin(1)
	for step := range 300 {
		i := random.IntN(2)
		q, w := s.Queue(1+65_534*i), &want[i]
		switch random.IntN(8) {
		default:
			text := fmt.Sprint(step)
			w.numbers, w.texts = append(w.numbers, put(t, q, text)), append(w.texts, text)
		case 0:
			if n := random.IntN(len(w.numbers) + 1); n > 0 {
				q.Remove(w.numbers[n-1])
				w.numbers, w.texts = w.numbers[n:], w.texts[n:]
			}
		case 1:
			if random.IntN(4) == 0 {
				q.End(w.generation - 1) // which a node that lags may know
				q.Begin(w.generation - 1)
				w.generation++
				if got := q.Begin(w.generation); got.Messages != int64(len(w.numbers)) {
					t.Fatalf("%d of %d messages are deleted", got.Messages, len(w.numbers))
				}
				w.numbers, w.texts = nil, nil
			}
		case 2:
			if random.IntN(4) == 0 {
				must(t, s.Close(t.Context()))
				s = open(t, dir, "one")
				q = s.Queue(1 + 65_534*i)
			}
		}
		bytes := 0
		for _, text := range w.texts {
			bytes += len(text)
		}
		if got := q.Totals(); got != (Totals{int64(len(w.texts)), int64(bytes)}) {
			t.Fatalf("step %d: got %+v of %v", step, got, w.texts)
		}
		after := uint64(0)
		if len(w.numbers) > 0 {
			after = w.numbers[0] - 1
			if !q.Waits(w.numbers[0]) || q.Waits(after) {
				t.Fatalf("step %d: the first message is not the first", step)
			}
		} else {
			after = q.Last()
		}
		if got := texts(t, q, after); !slices.Equal(got, w.texts) {
			t.Fatalf("step %d: got %v, want %v", step, got, w.texts)
		}
	}
	must(t, s.Close(t.Context()))
	s = open(t, dir, "another")
	if got := s.Queue(1).Totals(); got != (Totals{}) {
		t.Errorf("another cluster has %+v", got)
	}
	must(t, s.Close(t.Context()))
}

// TestRemovedWhileFull deletes messages and filters once that is possible.
func TestRemovedWhileFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := open(t, dir, "uuid")
		q := s.Queue(3)
		q.Begin(7)
		for i := range 3 {
			put(t, q, fmt.Sprint(i))
		}
		q.PutRoutes([]Route{{Filter: "a", Interest: 1}, {Filter: "b", Interest: 2}}, true)
		synctest.Wait()
		pragma := func(setting string) {
			_, err := s.conn.SQL().ExecContext(t.Context(), `PRAGMA `+setting)
			must(t, err)
		}
		pragma(`query_only = 1`)
		q.Remove(2)
		q.PutRoutes([]Route{{Filter: "a", Removed: true}, {Filter: "c", Interest: 17}}, false)
		synctest.Wait()
		if _, err := q.Put([]byte("x"), func(error) {}); err == nil {
			t.Error("a message is accepted that cannot be stored")
		}
		pragma(`query_only = 0`)
		<-time.After(2 * storage.ProbeInterval)
		put(t, q, "3")
		must(t, s.Close(t.Context()))

		s = open(t, dir, "uuid")
		q = s.Queue(3)
		q.Begin(7)
		if got := texts(t, q, 0); !slices.Equal(got, []string{"2", "3"}) {
			t.Errorf("got %v", got)
		}
		routes, complete, err := q.Routes(t.Context())
		must(t, err)
		if diff := cmp.Diff([]Route{{Filter: "b", Interest: 2}, {Filter: "c", Interest: 17}}, routes); diff != "" || !complete {
			t.Errorf("complete %v, (-want +got):\n%s", complete, diff)
		}
		q.End(7)
		if routes, complete, err := q.Routes(t.Context()); len(routes) > 0 || complete || err != nil {
			t.Errorf("after End: %v, %v, %v", routes, complete, err)
		}
		must(t, s.Close(t.Context()))
	})
}
