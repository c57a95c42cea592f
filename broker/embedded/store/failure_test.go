package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage"
)

const limitDir = "STORE_LIMIT_DIR" // set for the process with a limit on the size of its files

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
	l, err := s.disk.load(t.Context())
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

// TestFileLimit runs a process whose files cannot grow: SQLite gets an I/O error in the
// middle of writing its WAL.
func TestFileLimit(t *testing.T) {
	t.Parallel()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), limitDir+"="+t.TempDir())
	out, err := process.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// underLimit is the process of TestFileLimit; 0 is success.
func underLimit(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	err := func() error {
		s, err := openPlain(dir)
		if err != nil {
			return err
		}
		if err := <-submit(s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}}); err != nil {
			return err
		}
		limit := func(to uint64) error {
			return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: to, Max: 1 << 40})
		}
		if err := limit(storage.ProbeBytes); err != nil { // so that it does not recover by itself
			return err
		}
		if err := <-submit(s, queued(1, big(1, "t"))); err == nil || s.Err() == nil {
			return fmt.Errorf("beyond the limit got %w and %w", err, s.Err())
		}
		owed := submit(s, &engine.Changes{Owed: true, PutSessions: []engine.SessionRecord{session(2)}})
		if err := limit(1 << 30); err != nil {
			return err
		}
		s.Retry()
		if err := errors.Join(<-owed, <-submit(s, queued(2, message(2, "t")))); err != nil {
			return err
		}
		if l, err := s.disk.load(context.Background()); err != nil || len(l.snapshot.Sessions) != 2 || l.stored != 1 {
			return fmt.Errorf("stored %+v: %w", l, err)
		}
		return errors.Join(s.Close(context.Background()), s.file.Close())
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
