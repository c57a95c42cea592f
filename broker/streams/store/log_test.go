package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/messaging"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// TestLog performs random operations on a log and compares it with a list.
func TestLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 4))
			s := open(t, t.TempDir(), Options{})
			m := &model{t: t, random: random, store: s, log: stream(t, s, "s", 0)}
			appendAndWait(t, stream(t, s, "before", 0), messages(0, 9)...)
			for range 120 {
				m.step()
			}
			m.check()
			checkFile(t, m.store)
			closeStore(t, m.store)
		})
	}
}

// model is a log and the list of messages that it should have.
type model struct {
	t      *testing.T
	random *rand.Rand
	store  *Store
	log    *Log
	want   []messaging.Message
	at     int64
	next   int
}

func (m *model) step() {
	switch n := m.random.IntN(20); {
	case n < 10:
		m.append()
	case n < 12:
		m.clear()
	case n < 13:
		id := m.log.stored.stream
		must(m.t, m.log.Close(m.t.Context()))
		closeStore(m.t, m.store)
		m.store = open(m.t, dirOf(m.store), Options{})
		m.log = openLog(m.t, m.store, id)
	default:
		m.check()
	}
}

// append appends some messages without waiting for them, or waits for the last.
func (m *model) append() {
	var batch []messaging.Message
	size := 1 + m.random.IntN(10)
	if m.random.IntN(4) == 0 {
		size = m.random.IntN(2 * blockMessages)
	}
	for range size {
		if m.random.IntN(3) == 0 {
			m.at += m.random.Int64N(5)
		}
		m.next++
		batch = append(batch, messaging.Message{
			Topic: fmt.Sprint("t/", m.random.IntN(3)), Payload: make([]byte, m.random.IntN(20)), At: m.at, QoS: byte(m.random.IntN(3)),
			Properties: fmt.Append(nil, m.next),
		})
	}
	if len(batch) > 0 && m.random.IntN(10) == 0 {
		batch[len(batch)-1].Payload = make([]byte, 2*blockBytes)
	}
	m.want = append(m.want, batch...)
	committed := appendAsync(m.t, m.log, batch...)
	if m.random.IntN(2) == 0 {
		must(m.t, <-committed)
	}
	clear(batch) // Append must not have retained it
}

// span returns a random range, sometimes open at either end.
func (m *model) span() streams.Range {
	r := allTimes
	if m.random.IntN(4) > 0 {
		r.From = m.random.Int64N(m.at + 3)
	}
	if m.random.IntN(4) > 0 {
		r.To = max(r.From, 0) + m.random.Int64N(m.at/3+3) - 1
	}
	return r
}

func (m *model) clear() {
	r := m.span()
	must(m.t, m.log.Clear(m.t.Context(), r))
	m.want = slices.DeleteFunc(m.want, func(x messaging.Message) bool { return r.From <= x.At && x.At <= r.To })
}

func (m *model) check() {
	must(m.t, <-appendAsync(m.t, m.log)) // everything that was appended is stored
	r, reverse := m.span(), m.random.IntN(2) == 0
	var want []messaging.Message
	for _, x := range m.want {
		if r.From <= x.At && x.At <= r.To {
			want = append(want, x)
		}
	}
	n, err := m.log.Count(m.t.Context(), r)
	must(m.t, err)
	if n != int64(len(want)) {
		m.t.Fatalf("counted %d messages in %v, want %d", n, r, len(want))
	}
	m.checkTimeline(r, want)
	if reverse {
		slices.Reverse(want)
	}
	got := read(m.t, m.log, r, reverse)
	for i := range min(len(got), len(want)) {
		if !same(got[i], want[i]) {
			m.t.Fatalf("message %d of %v, reverse %t, is %s of %d, want %s of %d", i, r, reverse, got[i].Properties, got[i].At, want[i].Properties, want[i].At)
		}
	}
	if len(got) != len(want) {
		m.t.Fatalf("read %d messages in %v, reverse %t, want %d", len(got), r, reverse, len(want))
	}
	if u := m.log.Usage(); u.Messages != int64(len(m.want)) || u.Evicted != 0 || u.Expired != 0 {
		m.t.Fatalf("got usage %+v, want %d messages", u, len(m.want))
	}
}

// checkTimeline compares the timeline of a range with its messages.
func (m *model) checkTimeline(r streams.Range, messages []messaging.Message) {
	slices := 1 + m.random.IntN(60)
	got, err := m.log.Timeline(m.t.Context(), r, slices)
	must(m.t, err)
	var want streams.Timeline
	if len(messages) > 0 {
		want.First, want.Last = messages[0].At, messages[len(messages)-1].At
		want.Step = (want.Last-want.First)/int64(slices) + 1
		want.Counts = make([]int64, slices)
		for _, x := range messages {
			want.Counts[(x.At-want.First)/want.Step]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Fatalf("%d slices of %v (-want +got):\n%s", slices, r, diff)
	}
}

// TestTimelineIsBounded has more blocks than a timeline counts.
func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	l := stream(t, s, "s", 0)
	appendAndWait(t, l, messages(10, 3)...)
	execOnWriter(t, s, fmt.Sprintf(`
		INSERT INTO block (id, first_at, last_at, count, bytes, messages)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT b.id + i, b.last_at, b.last_at, b.count, b.bytes, b.messages FROM n, block b`, maxTimelineBlocks))
	totals, _ := l.stored.read()
	totals.next += maxTimelineBlocks
	l.stored.setTotals(totals)
	got, err := l.Timeline(t.Context(), allTimes, 10)
	must(t, err)
	if want := (streams.Timeline{First: 10, Last: 12, Step: 1}); got.Counts != nil || got.First != want.First || got.Last != want.Last {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// same compares messages; cmp would take too long.
func same(a, b messaging.Message) bool {
	return a.Topic == b.Topic && a.At == b.At && a.QoS == b.QoS && bytes.Equal(a.Payload, b.Payload) && bytes.Equal(a.Properties, b.Properties)
}

// TestTimesNeverDecrease has a clock that goes back, also while the store is
// closed and the log is empty.
func TestTimesNeverDecrease(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	l := stream(t, s, "s", 0)
	appendAndWait(t, l, messaging.Message{At: 100}, messaging.Message{At: 50})
	appendAndWait(t, l, messaging.Message{At: 99})
	wantTimes(t, l, 100, 100, 100)
	must(t, l.Clear(t.Context(), allTimes))
	s = reopen(t, s, Options{})
	l = openLog(t, s, l.stored.stream)
	appendAndWait(t, l, messaging.Message{At: 98}, messaging.Message{At: 101})
	wantTimes(t, l, 100, 101)
}

// TestState stores the state with the messages, and keeps it if an append has
// none.
func TestState(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	l, other := stream(t, s, "s", 0), stream(t, s, "other", 0)
	if state, err := l.State(t.Context()); state != nil || err != nil {
		t.Errorf("got %q (%v), want none", state, err)
	}
	capacity := []byte("first")
	must(t, l.Append(t.Context(), messages(1, 1), capacity, func(error) {}))
	copy(capacity, "xxxxx")
	must(t, other.Append(t.Context(), messages(1, 1), []byte("other"), func(error) {}))
	must(t, other.Append(t.Context(), nil, []byte("alone"), func(error) {}))
	appendAndWait(t, l, messages(2, 1)...)
	s = reopen(t, s, Options{})
	for id, want := range map[int64]string{l.stored.stream: "first", other.stored.stream: "alone"} {
		if state, err := openLog(t, s, id).State(t.Context()); string(state) != want || err != nil {
			t.Errorf("got %q (%v), want %q", state, err, want)
		}
	}
}

// TestCommittedInOrder checks that the callbacks of several logs run in the
// order of the appends.
func TestCommittedInOrder(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	list := []*Log{stream(t, s, "a", 0), stream(t, s, "b", 0)}
	const n = 300
	got := make(chan int, n)
	for i := range n {
		must(t, list[i%2].Append(t.Context(), messages(int64(i), 1+i%3), nil, func(err error) {
			must(t, err)
			got <- i
		}))
	}
	for i := range n {
		if committed := <-got; committed != i {
			t.Fatalf("%d was committed instead of %d", committed, i)
		}
	}
}

// TestAppendWaitsForCapacity appends more than can be stored. The callers wait
// until there is capacity or their context ends.
func TestAppendWaitsForCapacity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const capacity = 64 << 10
		s := fresh(t, Options{pending: capacity})
		l := stream(t, s, "s", 0)
		must(t, s.file.Lock(t.Context()))
		big := messaging.Message{Payload: make([]byte, capacity/2)}
		for range 3 { // the first is being written, and still counts
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.Append(ctx, []messaging.Message{big}, nil, func(err error) { must(t, err) }) }()
			synctest.Wait()
			select {
			case err := <-done:
				must(t, err)
			default:
				if l.stored.totals.messages > 0 || !s.commits.Full() {
					t.Error("waits although there is capacity")
				}
				cancel(errEnough)
				if err := <-done; !errors.Is(err, errEnough) {
					t.Errorf("got %v", err)
				}
			}
			cancel(nil)
		}
		waiting := make(chan error, 1)
		go func() { waiting <- l.Append(t.Context(), []messaging.Message{big}, nil, func(error) {}) }()
		synctest.Wait()
		if len(waiting) > 0 {
			t.Error("does not wait although there is no capacity")
		}
		s.file.Unlock()
		must(t, <-waiting)
		must(t, l.Close(t.Context()))
		if u := l.Usage(); u.Messages != 3 {
			t.Errorf("stored %d messages, want 3", u.Messages)
		}
		synctest.Wait()
		at, end := context.WithCancel(t.Context())
		end()
		if err := errors.Join(s.commits.Reserve(at, capacity-1), s.commits.Reserve(at, 1)); err != nil { // full with one byte more
			t.Errorf("bytes are still reserved: %v", err)
		}
		s.commits.Release(capacity)
	})
}

var errEnough = errors.New("enough")

// TestReadHoldsNothing checks that no transaction is open while a reader does
// something else: the WAL could not be reset.
func TestReadHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // in which no sweep runs meanwhile
		s := fresh(t, Options{})
		l := stream(t, s, "s", 0)
		const n = 2 * pageRows
		for at := range int64(n) {
			appendAsync(t, l, messages(at, 1)...)
		}
		must(t, <-appendAsync(t, l))
		seen := 0
		must(t, l.Read(t.Context(), allTimes, false, func(m messaging.Message) bool {
			if seen++; seen%500 == 0 {
				var busy, pages, folded int
				must(t, s.definitions.QueryRowContext(t.Context(), `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &folded))
				if busy != 0 || pages != 0 {
					t.Errorf("the log could not be folded after %d messages: %d, %d, %d", seen, busy, pages, folded)
				}
				appendAndWait(t, l, messages(n+1, 1)...) // and is not read
			}
			return true
		}))
		if seen != n {
			t.Errorf("read %d messages, want %d", seen, n)
		}
	})
}

// TestReadBesideChanges reads while the messages ahead are deleted and others
// are stored. What is read is in order, and messages that are not deleted are
// complete.
func TestReadBesideChanges(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{Durability: storage.Process})
	l := stream(t, s, "s", 0)
	const n = 3 * pageRows
	for at := range int64(n) {
		appendAndWait(t, l, messages(at, 1)...)
	}
	for _, reverse := range []bool{false, true} {
		var got []int64
		must(t, l.Read(t.Context(), allTimes, reverse, func(m messaging.Message) bool {
			if len(got)%500 == 0 {
				from := int64(n/2 + len(got)/10)
				must(t, l.Clear(t.Context(), streams.Range{From: from, To: from + 20}))
			}
			got = append(got, m.At)
			return true
		}))
		if reverse {
			slices.Reverse(got)
		}
		if !slices.IsSorted(got) || !slices.Equal(got[:n/2], times(0, n/2)) || len(got) == n {
			t.Errorf("reverse %t: read %d messages, %d and so on", reverse, len(got), got[:5])
		}
	}
}

// TestTogether runs all operations concurrently. Messages that no operation
// deletes must not be lost.
func TestTogether(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{Durability: storage.Process})
	const writers, each = 4, 60
	var wg sync.WaitGroup
	for w := range writers {
		l := stream(t, s, fmt.Sprint("log ", w), 0)
		wg.Go(func() {
			for i := range int64(each) {
				appendAndWait(t, l, messages(10*i, 10)...)
			}
			wantTimes(t, l, times(0, 10*each)...)
		})
		wg.Go(func() {
			for range each {
				read(t, l, streams.Range{From: 5, To: 300}, w%2 == 0)
				must(t, errorOf(l.Count(t.Context(), streams.Range{From: 5, To: 300})), l.Clear(t.Context(), streams.Range{From: -9, To: -1}))
			}
		})
		wg.Go(func() {
			for i := range each / 6 {
				short := stream(t, s, fmt.Sprint("short ", w, " ", i), 0)
				appendAsync(t, short, messages(1, 100)...)
				must(t, short.Close(t.Context()), s.Delete(t.Context(), short.stored.stream))
			}
		})
	}
	wg.Wait()
	if got := definitions(t.Context(), s); len(got) != writers {
		t.Errorf("found %d streams, want %d", len(got), writers)
	}
	s = reopen(t, s, Options{})
	for _, d := range definitions(t.Context(), s) {
		wantTimes(t, openLog(t, s, d.ID), times(0, 10*each)...)
	}
}

// TestReadEnds checks that a read ends with its context, or when yield returns
// false.
func TestReadEnds(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	l := stream(t, s, "s", 0)
	appendAndWait(t, l, messages(1, 5000)...)
	n := 0
	must(t, l.Read(t.Context(), allTimes, true, func(messaging.Message) bool { n++; return n < 7 }))
	if n != 7 {
		t.Errorf("read %d messages after being told to end at 7", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Read(ctx, allTimes, false, func(messaging.Message) bool { return true }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := l.Count(ctx, streams.Range{From: 3, To: 4}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
