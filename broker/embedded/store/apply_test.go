package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

// wantIndex checks the index in memory and the one in the file.
func wantIndex(t testing.TB, s *opened, want uint64) {
	t.Helper()
	stored, err := readPosition(context.Background(), s.conn.SQL())
	must(t, err)
	if got := s.AppliedIndex(); got != want || stored.index != want {
		t.Errorf("applied up to %d, stored up to %d, want %d", got, stored.index, want)
	}
}

// wantShared checks that a store shares a part, or nothing if part is 0.
func wantShared(t testing.TB, s *opened, want Part) {
	t.Helper()
	part, ok := s.Shared()
	if ok != (want != 0) || ok && part != want {
		t.Errorf("shares part %d (%t), want %d", part, ok, want)
	}
}

// wantSame checks that two stores have the same contents.
func wantSame(t testing.TB, want, got *opened) {
	t.Helper()
	if diff := cmp.Diff(describe(whole(t, want.Store)), describe(whole(t, got.Store))); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestLoadWhileApplying loads while more is applied: what Load returns and logs must
// not be shared with the goroutine that applies. It needs the race detector.
func TestLoadWhileApplying(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	must(t, s.Apply(1, []*engine.Changes{{PutSessions: []engine.SessionRecord{session(1)}}}))
	var applying sync.WaitGroup
	applying.Go(func() {
		for i := range uint64(200) {
			if err := s.Apply(i+2, []*engine.Changes{queued(1, message(i+1, "t"))}); err != nil {
				t.Error(err)
			}
		}
	})
	for s.AppliedIndex() < 201 && !t.Failed() {
		_, err := s.Load(t.Context())
		must(t, err)
	}
	applying.Wait()
}

// TestApply applies groups of a log beside changes that are submitted. An index that was
// applied is skipped, also after a restart.
func TestApply(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	wantIndex(t, s, 0)
	wantShared(t, s, 0)
	begin := submit(s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
	must(t, s.Apply(3, []*engine.Changes{queued(1, message(1, "t")), queued(1, message(2, "t"))}))
	must(t, <-begin)
	wantIndex(t, s, 3)
	must(t,
		s.Apply(3, []*engine.Changes{queued(1, message(9, "t"))}),
		s.Apply(2, []*engine.Changes{queued(1, message(9, "t"))}),
		s.Apply(10, nil),
	)
	wantIndex(t, s, 10)
	wantRows(t, s, map[string]int{"session": 1, "queue": 2, "message": 2})
	sound(t, s)
	again := reopen(t, s)
	s.file, s.Store = again.file, again.Store // what the cleanup shuts
	wantIndex(t, again, 10)
	wantShared(t, again, Everything)
	must(t, again.Apply(10, []*engine.Changes{dequeued(1, 1)}), again.Apply(11, []*engine.Changes{dequeued(1, 2)}))
	wantRows(t, again, map[string]int{"session": 1, "queue": 1, "message": 1})
	for _, index := range []uint64{0, math.MaxInt64 + 1} {
		if err := again.Apply(index, nil); err == nil {
			t.Errorf("index %d was taken", index)
		}
	}
}

// TestApplyWithoutLoad applies a log to a store that was never loaded.
func TestApplyWithoutLoad(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}}, queued(1, message(1, "t"), message(2, "t")))
	shut(t, s)
	unread, err := openPlain(strings.TrimSuffix(s.file.Path(), "broker.db"))
	must(t, err)
	*s = *unread
	must(t, s.Apply(1, []*engine.Changes{dequeued(1, 1)}))
	wantRows(t, s, map[string]int{"session": 1, "queue": 1, "message": 1})
	sound(t, s)
}

// TestApplyWhereNothingCanBeStored expects an error also for owed changes, and the same
// index to be accepted when there is space again.
func TestApplyWhereNothingCanBeStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		must(t, s.Apply(1, []*engine.Changes{{PutSessions: []engine.SessionRecord{session(1)}}, queued(1, message(1, "t"))}))
		within(t, s, `PRAGMA max_page_count = 1`)
		group := []*engine.Changes{dequeued(1, 1), {Owed: true, PutSessions: []engine.SessionRecord{session(2)}}, queued(2, big(2, "t"))}
		for range 2 {
			if err := s.Apply(2, group); err == nil || !strings.Contains(err.Error(), "free some space") {
				t.Errorf("got %v, want a sentence that helps", err)
			}
		}
		if s.Err() == nil {
			t.Error("the store does not tell that nothing can be stored")
		}
		wantIndex(t, s, 1)
		wantRows(t, s, map[string]int{"session": 1, "queue": 1, "message": 1})
		within(t, s, `PRAGMA max_page_count = 1000000`)
		must(t, s.Apply(2, group), s.Err())
		wantIndex(t, s, 2)
		wantRows(t, s, map[string]int{"session": 2, "queue": 1, "message": 1})
		sound(t, s)
	})
}

// TestApplyBehindOwed applies nothing while owed changes cannot be stored.
func TestApplyBehindOwed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		within(t, s, `PRAGMA query_only = 1`)
		owed := submit(s, &engine.Changes{Owed: true, PutSessions: []engine.SessionRecord{session(1)}})
		later := &engine.Changes{PutSessions: []engine.SessionRecord{{ID: 1, ClientID: "later"}}}
		if err := s.Apply(1, []*engine.Changes{later}); err == nil {
			t.Error("applied without leave to write")
		}
		within(t, s, `PRAGMA query_only = 0`)
		must(t, s.Apply(1, []*engine.Changes{later}), <-owed)
		now, err := s.Load(t.Context())
		must(t, err)
		if got := now.Sessions[0].ClientID; got != "later" {
			t.Errorf("the session is of %q, so not applied in order", got)
		}
	})
}

// TestApplyContradiction leaves out what contradicts what is stored, and nothing
// else.
func TestApplyContradiction(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	twice := message(3, "t")
	must(t, s.Apply(7, []*engine.Changes{
		{PutSessions: []engine.SessionRecord{session(1)}},
		queued(1, message(1, "t")),
		{Enqueued: []engine.QueueRecord{{SessionID: 1, Seq: 3, Message: twice}, {SessionID: 1, Seq: 3, Message: twice}}},
		queued(1, message(2, "t")),
	}))
	wantIndex(t, s, 7)
	wantRows(t, s, map[string]int{"session": 1, "queue": 2, "message": 2})
	sound(t, s)
	must(t, s.Apply(8, []*engine.Changes{dequeued(1, 1, 2)}), s.Err())
	wantRows(t, s, map[string]int{"session": 1})
	sound(t, s)
}

// TestDetach keeps the messages and deletes the index.
func TestDetach(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	must(t, s.SetDurability(t.Context(), storage.Process), s.Apply(5, []*engine.Changes{{PutSessions: []engine.SessionRecord{session(1)}}}))
	wantSynchronous(t, s, 1)
	must(t, s.Detach(t.Context()))
	wantSynchronous(t, s, 2)
	wantIndex(t, s, 0)
	wantShared(t, s, 0)
	must(t, s.Apply(1, []*engine.Changes{queued(1, message(1, "t"))}))
	wantIndex(t, s, 1)
	wantRows(t, s, map[string]int{"session": 1, "queue": 1, "message": 1})
}

// wantSynchronous checks SQLite's synchronous setting: 2 for FULL, 1 for NORMAL.
func wantSynchronous(t testing.TB, s *opened, want int) {
	t.Helper()
	var got int
	must(t, s.conn.SQL().QueryRowContext(context.Background(), `PRAGMA synchronous`).Scan(&got))
	if got != want {
		t.Errorf("synchronous is %d, want %d", got, want)
	}
}

// TestLoadAgain loads while changes are submitted. Each time the result has all that was
// submitted before.
func TestLoadAgain(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{Durability: storage.Process})
	s.Submit(&engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
	for n := range uint64(50) {
		m := message(n+1, fmt.Sprint("topic ", n))
		s.Submit(&engine.Changes{Retained: []engine.RetainedRecord{{Topic: m.Topic, Message: m}}})
		s.Submit(queued(1, m))
		now, err := s.Load(t.Context())
		must(t, err)
		if got := len(now.Retained); got != int(n)+1 || len(now.Sessions[0].Queue) != got {
			t.Fatalf("found %d retained and %d queued messages, want %d", got, len(now.Sessions[0].Queue), n+1)
		}
	}
	sound(t, s)
}

// TestTaskCancelled runs no task whose caller has given up, and accepts none after
// Close.
func TestTaskCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{})
		release := hold(t, s)
		s.Submit(&engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan error, 1)
		go func() { told <- s.Detach(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-told; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		go func() { told <- s.Apply(4, nil) }()
		synctest.Wait()
		bounded, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(bounded); err == nil {
			t.Error("close does not honour its context")
		}
		release()
		must(t, <-told, s.Close(t.Context()))
		if err := s.Apply(5, nil); !errors.Is(err, errClosed) {
			t.Errorf("got %v, want %v", err, errClosed)
		}
		if _, err := s.Load(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("got %v, want %v", err, errClosed)
		}
		if got := s.AppliedIndex(); got != 4 {
			t.Errorf("applied up to %d, want what was asked for before the end", got)
		}
		must(t, s.file.Close())
	})
}

// TestApplyManyAtOnce applies a log group by group in one store, and many groups at
// once in another. Brokers that serve one after the other made it: each goes on with
// the sequence numbers that it finds, so that some come again.
func TestApplyManyAtOnce(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	m := &model{rand: rand.New(rand.NewPCG(seed, 0)), retained: map[string]*engine.Message{}}
	single, many := fresh(t, Options{Durability: storage.Process}), fresh(t, Options{Durability: storage.Process})
	var gathered []*engine.Changes
	for index := uint64(1); index <= 300; index++ {
		group := m.group()
		gathered = append(gathered, group...)
		must(t, single.Apply(index, group))
		if m.chance(10) {
			again, err := DecodeChanges(AppendChanges(nil, gathered))
			must(t, err, many.Apply(index, again))
			gathered = nil
			sound(t, single)
			sound(t, many)
		}
		if m.chance(2) {
			m.takeOver()
		}
	}
	must(t, many.Apply(301, gathered))
	wantSame(t, single, many)
	if diff := cmp.Diff(describe(m.snapshot()), describe(whole(t, many.Store))); diff != "" || t.Failed() {
		t.Errorf("seed %d (-want +got):\n%s", seed, diff)
	}
}

// group returns some changes.
func (m *model) group() (group []*engine.Changes) {
	for range 1 + m.rand.IntN(10) {
		group = append(group, m.changes())
	}
	return group
}

// takeOver makes sequence numbers continue behind the queued messages.
func (m *model) takeOver() {
	m.seq = 0
	for _, s := range m.sessions {
		for _, r := range s.Queue {
			m.seq = max(m.seq, r.Seq)
		}
	}
}

// TestSequenceNumberReused dequeues and enqueues the same sequence number twice in one
// group. Each message loses one reference only.
func TestSequenceNumberReused(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	m, n := message(1, "t"), message(2, "t")
	must(t,
		s.Apply(1, []*engine.Changes{{PutSessions: []engine.SessionRecord{session(1), session(2)}}, queued(1, m), queued(2, m)}),
		s.Apply(2, []*engine.Changes{
			dequeued(1, 1),
			{Enqueued: []engine.QueueRecord{{SessionID: 1, Seq: 1, Message: n, QoS: 1}}},
			dequeued(1, 1, 1),
		}),
	)
	wantRows(t, s, map[string]int{"session": 2, "queue": 1, "message": 1})
	sound(t, s)
}

// TestAttach marks a part as shared and keeps what is stored.
func TestAttach(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	defer func() { shut(t, s) }()
	store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
	must(t, s.Attach(t.Context(), RetainedOnly))
	wantShared(t, s, RetainedOnly)
	must(t, s.Attach(t.Context(), Everything))
	s = reopen(t, s)
	wantShared(t, s, Everything)
	wantIndex(t, s, 1)
	must(t, s.Apply(7, []*engine.Changes{{PutSessions: []engine.SessionRecord{session(2)}}}), s.Attach(t.Context(), Everything))
	wantIndex(t, s, 7)
	must(t, s.Detach(t.Context()))
	wantShared(t, s, 0)
	wantRows(t, s, map[string]int{"session": 2})
}
