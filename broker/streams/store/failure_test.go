package store

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// TestAppendWhileFailing makes the file read-only. Append returns the reason at once and
// accepts nothing, and the state of the query stays.
func TestAppendWhileFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		l := stream(t, s, "s", 0)
		must(t, l.Append(t.Context(), messages(1, 2), []byte("kept"), func(error) {}), <-appendAsync(t, l))
		execOnWriter(t, s, `PRAGMA query_only = 1`)
		refused := <-appendAsync(t, l, messages(3, 1)...)
		err := l.Append(t.Context(), messages(4, 1), []byte("lost"), func(error) { t.Error("committed what was not taken") })
		if refused == nil || !errors.Is(err, s.Err()) {
			t.Errorf("got %v and %v, want %v", refused, err, s.Err())
		}
		must(t, l.Close(t.Context()))
		l = openLog(t, s, l.stored.stream)
		execOnWriter(t, s, `PRAGMA query_only = 0`)
		elapse(2 * storage.ProbeInterval)
		if state, err := l.State(t.Context()); string(state) != "kept" || err != nil {
			t.Errorf("the state is %q (%v)", state, err)
		}
		appendAndWait(t, l, messages(6, 2)...)
		wantTimes(t, l, 1, 2, 6, 7)
		checkFile(t, s)
	})
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
