package store

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

// big returns a message that does not fit where little space is left.
func big(id uint64, topic string) *engine.Message {
	m := message(id, topic)
	m.Payload = make([]byte, 2*storage.ProbeBytes)
	return m
}

// TestNothingCanBeStored makes the file full or read-only. Changes that are not owed are
// refused at once with advice; owed ones are kept, and stored in order as soon as that is
// possible.
func TestNothingCanBeStored(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ breaks, mends, hint string }{
		"full":      {`PRAGMA max_page_count = 1`, `PRAGMA max_page_count = 1000000`, "free some space"},
		"read-only": {`PRAGMA query_only = 1`, `PRAGMA query_only = 0`, "permissions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { nothingCanBeStored(t, tc.breaks, tc.mends, tc.hint) })
		})
	}
}

func nothingCanBeStored(t *testing.T, breaks, mends, hint string) {
	s := fresh(t, Options{})
	store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}}, queued(1, message(1, "t"), message(2, "t")))
	within(t, s, breaks)
	if err := <-submit(s, queued(1, big(3, "t"))); err == nil || !strings.Contains(err.Error(), hint) {
		t.Errorf("got %v, want a sentence with %q", err, hint)
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "SQL") {
		t.Errorf("got %v, want a sentence with %q and nothing of SQLite", err, hint)
	}

	j := &journal{}
	for i, c := range []*engine.Changes{
		{Owed: true, PutSessions: []engine.SessionRecord{session(2)}},
		queued(2, message(4, "t")),
		dequeued(1, 1),
		{Owed: true, PutSessions: []engine.SessionRecord{{ID: 2, ClientID: "later"}}},
	} {
		c.Done, c.Tag = j, i
		s.Submit(c)
	}
	elapse(t, 3*storage.ProbeInterval)
	if want := []string{"1 " + s.Err().Error()}; !cmp.Equal(want, j.all()) {
		t.Errorf("settled %q, want %q", j.all(), want)
	}
	within(t, s, mends)
	elapse(t, 2*storage.ProbeInterval)
	if err := s.Err(); err != nil {
		t.Errorf("the store does not recover by itself: %v", err)
	}
	if want := []string{"0 <nil>", "2 <nil>", "3 <nil>"}; !cmp.Equal(want, j.all()[1:]) {
		t.Errorf("settled %q, want %q", j.all(), want)
	}
	store(t, s, queued(1, big(5, "t")))
	l, err := load(t.Context(), s.conn)
	must(t, err)
	if got := l.snapshot.Sessions[1].ClientID; got != "later" {
		t.Errorf("what was owed was not stored in order: session 2 is %q", got)
	}
	wantRows(t, s, map[string]int{"session": 2, "queue": 2, "message": 2})
	sound(t, s)
}

// TestRetry does not wait for the next probe.
func TestRetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		s.Retry() // has no effect: nothing has failed
		within(t, s, `PRAGMA query_only = 1`)
		if err := <-submit(s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}}); err == nil {
			t.Fatal("stored without leave to write")
		}
		within(t, s, `PRAGMA query_only = 0`)
		synctest.Wait()
		if s.Err() == nil {
			t.Error("recovered before it was time")
		}
		s.Retry()
		synctest.Wait()
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestWaitForCapacityWhileFailing ends the wait when nothing can be stored.
func TestWaitForCapacityWhileFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		release := hold(t, s)
		for range maxPendingChanges + 2*groupChanges {
			s.Submit(&engine.Changes{Owed: true})
		}
		within(t, s, `PRAGMA query_only = 1`)
		release()
		s.WaitForCapacity()
		synctest.Wait()
		if s.Err() == nil {
			t.Error("stored without leave to write")
		}
		within(t, s, `PRAGMA query_only = 0`)
		s.Retry()
		synctest.Wait()
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	})
}

// TestCloseWhileFailing expects an error about what is lost.
func TestCloseWhileFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{})
		store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
		within(t, s, `PRAGMA query_only = 1`)
		owed := submit(s, &engine.Changes{Owed: true, EndedSessions: []uint64{1}})
		synctest.Wait()
		err := s.Close(t.Context())
		if told := <-owed; told == nil || err == nil || !errors.Is(err, told) {
			t.Errorf("closed with %v, and what was owed was told %v", err, told)
		}
		must(t, s.file.Close())
	})
}
