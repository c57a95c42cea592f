package monitor

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// fakeBroker has the samples that a test adds.
type fakeBroker struct {
	broker.Broker
	mu      sync.Mutex // guards samples
	samples []broker.SysTopics
}

func (f *fakeBroker) SysHistory(after int64) []broker.SysTopics {
	f.mu.Lock()
	defer f.mu.Unlock()
	return broker.SysAfter(f.samples, after)
}

func (f *fakeBroker) Close(context.Context) error { return nil }

// sample adds a sample of now, with a number of clients and of messages published so far.
func (f *fakeBroker) sample(clients, published int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	s := report(0, 0, -1, published, clients)
	s.Date, s.Reported = now.UnixMilli(), now
	f.samples = append(f.samples, s)
	f.samples = f.samples[max(len(f.samples)-60, 0):]
}

// service is a history with its pool of one broker.
type service struct {
	*History
	pool   *broker.Pool
	broker *fakeBroker
}

const brokerID = "b"

// serve opens the history and starts it.
func serve(t *testing.T, path string) *service {
	t.Helper()
	h := Open(t.Context(), path, Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s := &service{h, nil, &fakeBroker{}}
	s.pool = broker.NewPool(func(broker.Target) (broker.Broker, error) { return s.broker, nil })
	_, err := s.pool.Get(broker.Target{ID: brokerID})
	must(t, err)
	h.Start(s.pool)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass lets the broker take samples for a time; of returns the clients and messages of the
// nth one, negative clients for none.
func (s *service) pass(d time.Duration, of func(n int) (clients, published int)) {
	for n := range int(d / (10 * time.Second)) {
		if clients, published := of(n); clients >= 0 {
			s.broker.sample(clients, published)
		}
		<-time.After(10 * time.Second)
	}
}

// series returns a part of the history, with -1 for unknown values.
func (s *service) series(t *testing.T, step Step, ago time.Duration, of func(broker.MetricSets) []*float64) []float64 {
	t.Helper()
	now := time.Now()
	got, err := s.Read(t.Context(), brokerID, step, now.Add(-ago), now)
	must(t, err)
	var all []float64
	for _, v := range of(got.Series) {
		if v == nil {
			all = append(all, -1)
			continue
		}
		all = append(all, *v)
	}
	return all
}

func clientsOf(m broker.MetricSets) []*float64    { return m.Connected.Mean }
func maxClientsOf(m broker.MetricSets) []*float64 { return m.Connected.Max }
func messagesOf(m broker.MetricSets) []*float64   { return m.MessagesIn.Mean }
func maxMessages(m broker.MetricSets) []*float64  { return m.MessagesIn.Max }
func droppedOf(m broker.MetricSets) []*float64    { return m.Dropped.Mean }

// TestHistory follows a broker over a disconnection and a restart of the service. The clock
// of a synctest bubble starts at midnight, so intervals of all steps begin there.
func TestHistory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.db")
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, path)
		<-time.After(5 * time.Second)                                             // samples are in the middle of intervals
		s.pass(2*time.Minute, func(n int) (int, int) { return n, 1000 + n*n*10 }) // clients 0 to 11
		s.pass(time.Minute, func(int) (int, int) { return -1, 0 })
		s.pass(time.Minute, func(n int) (int, int) { return 20, 2410 + n*100 })
		want := []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, -1, -1, -1, -1, -1, -1, 20, 20, 20, 20, 20, 20, -1}
		if diff := cmp.Diff(want, s.series(t, steps[0], 245*time.Second, clientsOf)); diff != "" {
			t.Errorf("clients (-want +got):\n%s", diff)
		}
		// The rate after the disconnection is the mean over it: no peak.
		want = []float64{-1, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, -1, -1, -1, -1, -1, -1, 2.857, 10, 10, 10, 10, 10, -1}
		if diff := cmp.Diff(want, s.series(t, steps[0], 245*time.Second, messagesOf), rounded); diff != "" {
			t.Errorf("messages per second (-want +got):\n%s", diff)
		}
		must(t, s.Close(t.Context()))
		<-time.After(time.Minute)

		s = serve(t, path)
		defer func() { must(t, s.Close(t.Context())) }()
		<-time.After(time.Second)                                                   // so that samples are not taken when the history asks for them
		s.pass(time.Minute, func(n int) (int, int) { return 30, 1_000_000 + 10*n }) // after a break its counters are unknown
		minute := steps[1]
		for _, c := range []struct {
			name string
			want []float64
			of   func(broker.MetricSets) []*float64
		}{
			{"clients", []float64{2.5, 8.5, -1, 20, -1, 30, -1}, clientsOf},
			{"most clients", []float64{5, 11, -1, 20, -1, 30, -1}, maxClientsOf},
			{"messages per second", []float64{5, 16, -1, 8.81, -1, 1, -1}, messagesOf},
			{"most messages per second", []float64{9, 21, -1, 10, -1, 1, -1}, maxMessages},
			{"dropped messages, which it does not report", []float64{-1, -1, -1, -1, -1, -1, -1}, droppedOf},
		} {
			got := s.series(t, minute, 365*time.Second, c.of)
			if diff := cmp.Diff(c.want, got, rounded); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
		s.pass(time.Minute, func(int) (int, int) { return 30, 1_000_060 })
		if got := s.series(t, steps[3], 0, maxClientsOf); !slices.Equal(got, []float64{30}) {
			t.Errorf("most clients in ten minutes: %v, want 30", got)
		}
	})
}

var rounded = cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 0.01 })

// TestHistoryForgets deletes the history of a deleted broker, pending samples included, and
// at the start that of one that no longer exists.
func TestHistoryForgets(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.db")
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, path)
		s.pass(90*time.Second, func(int) (int, int) { return 1, 1 })
		must(t, s.pool.Drop(t.Context(), brokerID))
		must(t, s.Forget(t.Context(), brokerID))
		s.pass(90*time.Second, func(int) (int, int) { return 1, 1 })
		if got := s.series(t, finest, time.Hour, clientsOf); slices.ContainsFunc(got, func(v float64) bool { return v >= 0 }) {
			t.Errorf("after Forget: %v", got)
		}
		must(t, s.file.store.write(t.Context(), map[string][]row{"kept": {{at: 10}}, "gone": {{at: 10}}}))
		must(t, s.Close(t.Context()))

		h := Open(t.Context(), path, Options{})
		must(t, h.Retain(t.Context(), []string{"kept", "other"}))
		ids, err := h.file.store.brokers(t.Context())
		must(t, err)
		if !slices.Equal(ids, []string{"kept"}) {
			t.Errorf("brokers with a history: %q, want the kept one", ids)
		}
		must(t, h.Close(t.Context()))
	})
}

// TestHistoryIsBounded writes more samples than are kept.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	h := Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), Options{})
	defer func() { must(t, h.Close(context.WithoutCancel(t.Context()))) }()
	const spacing = 600 // seconds; coprime to the numbers of slots, so that all are used
	rows := make([]row, 0, 100)
	for i := range int64(4400) {
		rows = append(rows, row{1_800_000_000 + i*spacing, values{1, 2, 3, 4, 5, 6, 7, float64(i)}})
		if len(rows) == cap(rows) {
			must(t, h.file.store.write(t.Context(), map[string][]row{brokerID: rows}))
			rows = rows[:0]
		}
	}
	for _, step := range steps {
		var n int64
		must(t, h.file.store.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM sample WHERE step = ?`, step.seconds()).Scan(&n))
		if n != step.slots() {
			t.Errorf("step %v: %d rows, want %d", step.Length, n, step.slots())
		}
	}
	var s source
	for i := range int64(1000) {
		s.add(broker.SysTopics{Topics: map[string]string{}, Date: epoch.UnixMilli() + i*10_000, Reported: epoch})
	}
	if got := int64(len(s.pending)); got != finest.slots() {
		t.Errorf("%d samples wait to be written, want %d", got, finest.slots())
	}
}

// TestReadIsBounded moves a range to what is kept.
func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	h := Open(t.Context(), filepath.Join(t.TempDir(), "history.db"), Options{Now: func() time.Time { return epoch }})
	defer func() { must(t, h.Close(context.WithoutCancel(t.Context()))) }()
	for _, step := range steps {
		got, err := h.Read(t.Context(), brokerID, step, time.UnixMilli(0), epoch.Add(1000*time.Hour))
		must(t, err)
		if from, to := epoch.Add(-step.Kept).UnixMilli(), epoch.Add(step.Length).UnixMilli(); got.From != from || got.To != to {
			t.Errorf("step %v: from %d to %d, want from %d to %d", step.Length, got.From, got.To, from, to)
		}
		if n := int64(len(got.Series.Dropped.Mean)); n != step.slots() {
			t.Errorf("step %v: %d intervals, want %d", step.Length, n, step.slots())
		}
	}
	old, err := h.Read(t.Context(), brokerID, finest, time.UnixMilli(0), time.UnixMilli(1000))
	must(t, err)
	if len(old.Series.Connected.Mean) != 0 || old.From != old.To {
		t.Errorf("a range before all that is kept: %+v", old)
	}
}
