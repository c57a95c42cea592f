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

// TestNothingCanBeStored makes the file full or read-only. Messages are refused
// with an error that an operator can act on, and the store recovers by itself.
func TestNothingCanBeStored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ breaks, mends, want string }{
		"full":      {`PRAGMA max_page_count = 1`, `PRAGMA max_page_count = 1000000`, "the disk that holds the streams' database is full: free some space"},
		"read-only": {`PRAGMA query_only = 1`, `PRAGMA query_only = 0`, "the streams' database cannot be written to: check the permissions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { nothingCanBeStored(t, tc.breaks, tc.mends, tc.want) })
		})
	}
}

func nothingCanBeStored(t *testing.T, breaks, mends, want string) {
	said := &strings.Builder{}
	s := fresh(t, Options{Log: textLogger(said)})
	l := stream(t, s, "s", 0)
	must(t, l.Append(t.Context(), messages(1, 2), []byte("kept"), func(error) {}), <-appendAsync(t, l))
	execOnWriter(t, s, breaks)
	wantRefusal := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SQL") {
			t.Errorf("got %v, want %q and nothing of SQLite", err, want)
		}
	}
	must(t, s.file.Lock(t.Context()))
	first, second := appendAsync(t, l, largeMessages(3, 1, 2*storage.ProbeBytes)...), appendAsync(t, l, messages(4, 1)...)
	synctest.Wait()
	s.file.Unlock()
	wantRefusal(<-first)
	wantRefusal(<-second)
	wantRefusal(s.Err())
	wantRefusal(l.Append(t.Context(), messages(5, 1), []byte("lost"), func(error) { t.Error("committed what was not taken") }))
	elapse(3 * storage.ProbeInterval)
	wantRefusal(s.Err())
	if n := strings.Count(said.String(), "level=ERROR"); n != 1 {
		t.Errorf("logged %d errors, want one: %s", n, said)
	}
	wantTimes(t, l, 1, 2)
	must(t, l.Close(t.Context()))
	l = openLog(t, s, l.stored.stream)

	execOnWriter(t, s, mends)
	elapse(2 * storage.ProbeInterval)
	if err := s.Err(); err != nil {
		t.Errorf("the store does not recover by itself: %v", err)
	}
	if state, err := l.State(t.Context()); string(state) != "kept" || err != nil {
		t.Errorf("the state is %q (%v)", state, err)
	}
	appendAndWait(t, l, messages(6, 2)...)
	wantTimes(t, l, 1, 2, 6, 7)
	checkFile(t, s)
}

// TestFullDiskCanBeCleared deletes messages while the disk is full, which frees
// space.
func TestFullDiskCanBeCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		l, fading := stream(t, s, "s", 0), stream(t, s, "fading", 3)
		appendAndWait(t, l, largeMessages(1, 10, 100<<10)...)
		appendNow(t, fading)
		execOnWriter(t, s, `PRAGMA max_page_count = 1`)
		err := <-appendAsync(t, l, largeMessages(11, 1, 1<<20)...)
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
			t.Errorf("the disk is not full any more: %v", err)
		}
		appendAndWait(t, l, messages(12, 1)...)
		wantTimes(t, l, 1, 10, 12)
	})
}

// TestDefinitionsWhileFailing checks that a refused definition has an error
// with the reason and changes nothing.
func TestDefinitionsWhileFailing(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	id := define(t, s, "s", 0)
	_, err := s.definitions.ExecContext(t.Context(), `PRAGMA query_only = 1`)
	must(t, err)
	const want = "the streams' database cannot be written to"
	_, err = s.Put(t.Context(), "b", streams.Definition{Stream: broker.Stream{StreamName: "new"}})
	for _, err := range []error{err, s.Delete(t.Context(), id), s.Forget(t.Context(), "b")} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	appendAndWait(t, openLog(t, s, id), messages(1, 1)...)
	if got := definitions(t.Context(), s); len(got) != 1 {
		t.Errorf("found %d streams, want 1", len(got))
	}
	checkFile(t, s)
}

// TestEntryThatContradictsTheFile has one log that contradicts the file.
// Messages of other logs in the same group are stored.
func TestEntryThatContradictsTheFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said := &strings.Builder{}
		s := fresh(t, Options{Log: textLogger(said)})
		l, other := stream(t, s, "s", 0), stream(t, s, "other", 0)
		execOnWriter(t, s, `INSERT INTO block (id, first_at, last_at, count, bytes, messages) VALUES (1 << 40, 0, 0, 0, 0, x'00')`)
		must(t, s.file.Lock(t.Context()))
		appendAsync(t, other, messages(1, 1)...)
		synctest.Wait()
		before, bad, after := appendAsync(t, other, messages(2, 1)...), appendAsync(t, l, messages(1, 1)...), appendAsync(t, other, messages(3, 1)...)
		s.file.Unlock()
		must(t, <-before, <-after)
		if err := <-bad; err == nil || s.Err() != nil || !strings.Contains(said.String(), "contradict") {
			t.Errorf("got %v and %v, logged %s", err, s.Err(), said)
		}
		wantTimes(t, other, 1, 2, 3)
		execOnWriter(t, s, `DELETE FROM block WHERE id = 1 << 40`)
		checkFile(t, s)
	})
}
