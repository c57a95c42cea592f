package store

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// TestNothingCanBeStored makes the file full or read-only. What is handed over is
// refused with a sentence that helps, and the store recovers by itself.
func TestNothingCanBeStored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ breaks, mends, says string }{
		"full":      {`PRAGMA max_page_count = 1`, `PRAGMA max_page_count = 1000000`, "the disk that holds the streams' database is full: free some space"},
		"read-only": {`PRAGMA query_only = 1`, `PRAGMA query_only = 0`, "the streams' database cannot be written to: check the permissions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { nothingCanBeStored(t, tc.breaks, tc.mends, tc.says) })
		})
	}
}

func nothingCanBeStored(t *testing.T, breaks, mends, says string) {
	said := &strings.Builder{}
	s := fresh(t, Options{Log: toText(said)})
	l := stream(t, s, "s", 0)
	must(t, l.Append(t.Context(), messages(1, 2), []byte("kept"), func(error) {}), <-hand(t, l))
	within(t, s, breaks)
	wantRefusal := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "SQL") {
			t.Errorf("got %v, want %q and nothing of SQLite", err, says)
		}
	}
	must(t, s.file.Lock(t.Context()))
	first, second := hand(t, l, weighty(3, 1, 2*storage.ProbeBytes)...), hand(t, l, messages(4, 1)...)
	synctest.Wait()
	s.file.Unlock()
	wantRefusal(<-first)
	wantRefusal(<-second)
	wantRefusal(s.Err())
	wantRefusal(l.Append(t.Context(), messages(5, 1), []byte("lost"), func(error) { t.Error("settled what was not taken") }))
	elapse(3 * storage.ProbeInterval)
	wantRefusal(s.Err())
	if n := strings.Count(said.String(), "level=ERROR"); n != 1 {
		t.Errorf("logged %d errors, want one: %s", n, said)
	}
	wantTimes(t, l, 1, 2)
	must(t, l.Close(t.Context()))
	l = kept(t, s, l.journal.stream)

	within(t, s, mends)
	elapse(2 * storage.ProbeInterval)
	if err := s.Err(); err != nil {
		t.Errorf("the store does not recover by itself: %v", err)
	}
	if state, err := l.State(t.Context()); string(state) != "kept" || err != nil {
		t.Errorf("the state is %q (%v)", state, err)
	}
	keep(t, l, messages(6, 2)...)
	wantTimes(t, l, 1, 2, 6, 7)
	sound(t, s)
}

// TestFullDiskCanBeCleared lets messages be deleted while there is no room for
// more, which makes some.
func TestFullDiskCanBeCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		l, fading := stream(t, s, "s", 0), stream(t, s, "fading", 3)
		keep(t, l, weighty(1, 10, 100<<10)...)
		now(t, fading)
		within(t, s, `PRAGMA max_page_count = 1`)
		err := <-hand(t, l, weighty(11, 1, 1<<20)...)
		if err == nil || s.Err() == nil {
			t.Fatalf("stored on a full disk: %v", err)
		}
		elapse(4 * time.Second)
		if u := fading.Usage(); u.Expired != 1 {
			t.Errorf("nothing expires on a full disk: %+v", u)
		}
		must(t, l.Clear(t.Context(), streams.Range{From: 2, To: 9}))
		elapse(2 * storage.ProbeInterval)
		if err := s.Err(); err != nil {
			t.Errorf("there is room now: %v", err)
		}
		keep(t, l, messages(12, 1)...)
		wantTimes(t, l, 1, 10, 12)
	})
}

// TestDefinitionsWhileFailing says why a definition cannot be stored, and has
// changed nothing.
func TestDefinitionsWhileFailing(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	id := define(t, s, "s", 0)
	_, err := s.definitions.ExecContext(t.Context(), `PRAGMA query_only = 1`)
	must(t, err)
	const says = "the streams' database cannot be written to"
	_, err = s.Put(t.Context(), "b", streams.Definition{Stream: broker.Stream{StreamName: "new"}})
	for _, err := range []error{err, s.Delete(t.Context(), id), s.Forget(t.Context(), "b")} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	keep(t, kept(t, s, id), messages(1, 1)...)
	if got := definitions(t.Context(), s); len(got) != 1 {
		t.Errorf("found %d streams, want 1", len(got))
	}
	sound(t, s)
}

// TestEntryAtFault has one log that contradicts the file. What is handed over to
// others with it is stored.
func TestEntryAtFault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said := &strings.Builder{}
		s := fresh(t, Options{Log: toText(said)})
		l, other := stream(t, s, "s", 0), stream(t, s, "other", 0)
		within(t, s, `INSERT INTO block (id, first_at, last_at, count, bytes, messages) VALUES (1 << 40, 0, 0, 0, 0, x'00')`)
		must(t, s.file.Lock(t.Context()))
		hand(t, other, messages(1, 1)...)
		synctest.Wait()
		before, bad, after := hand(t, other, messages(2, 1)...), hand(t, l, messages(1, 1)...), hand(t, other, messages(3, 1)...)
		s.file.Unlock()
		must(t, <-before, <-after)
		if err := <-bad; err == nil || s.Err() != nil || !strings.Contains(said.String(), "contradict") {
			t.Errorf("got %v and %v, logged %s", err, s.Err(), said)
		}
		wantTimes(t, other, 1, 2, 3)
		within(t, s, `DELETE FROM block WHERE id = 1 << 40`)
		sound(t, s)
	})
}
