package storagetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/storage"
)

// rig is an open store of a test in a synctest bubble.
type rig struct {
	Store
	t   *testing.T
	log *strings.Builder // warnings and errors
}

// inBubble runs a test in a synctest bubble with an empty store, which it closes.
func inBubble(t *testing.T, u User, test func(r *rig)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, u, dir)
		test(r)
		must(t, r.Close(t.Context()))
	})
}

func newRig(t *testing.T, u User, dir string) *rig {
	t.Helper()
	log := &strings.Builder{}
	s, err := u.Open(t.Context(), dir, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	must(t, err)
	synctest.Wait()
	return &rig{s, t, log}
}

// pragma sets a pragma of the committer's connection, which must be idle.
func (r *rig) pragma(setting string) {
	r.t.Helper()
	_, err := r.Conn().SQL().ExecContext(r.t.Context(), `PRAGMA `+setting)
	must(r.t, err)
}

// lock keeps the committer from beginning a transaction until unlock.
func (r *rig) lock() (unlock func()) {
	r.t.Helper()
	must(r.t, r.Conn().File().Lock(r.t.Context()))
	return r.Conn().File().Unlock
}

// elapse advances the time of the bubble.
func elapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (r *rig) wantStored(want ...int) {
	r.t.Helper()
	if got := r.Stored(r.t); !slices.Equal(got, want) {
		r.t.Errorf("stored %v, want %v", got, want)
	}
	r.Check(r.t)
}

// full makes the file unable to grow.
func full(t *testing.T, u User) {
	inBubble(t, u, func(r *rig) {
		nothingCanBeStored(r, `max_page_count = 1`, `max_page_count = 1000000`, "is full: free some space")
	})
}

// readOnly makes the file refuse changes.
func readOnly(t *testing.T, u User) {
	inBubble(t, u, func(r *rig) {
		nothingCanBeStored(r, `query_only = 1`, `query_only = 0`, "cannot be written to: check the permissions")
	})
}

// nothingCanBeStored expects entries to be refused with a sentence that an operator can
// act on, one line in the log, and a store that recovers by itself.
func nothingCanBeStored(r *rig, breaks, mends, hint string) {
	wantRefusal := func(err error) {
		r.t.Helper()
		if text := fmt.Sprint(err); err == nil || !strings.Contains(text, hint) || strings.Contains(text, "SQL") {
			r.t.Errorf("got %v, want %q and nothing of SQLite", err, hint)
		}
	}
	must(r.t, <-put(r, 1, 0))
	r.pragma(breaks)
	unlock := r.lock()
	first, second := put(r, 2, 2*storage.ProbeBytes), put(r, 3, 0)
	synctest.Wait()
	unlock()
	wantRefusal(<-first)
	wantRefusal(<-second)
	wantRefusal(r.Err())
	wantRefusal(<-put(r, 4, 0))
	elapse(3 * storage.ProbeInterval)
	wantRefusal(r.Err())
	if n := strings.Count(r.log.String(), "level=ERROR"); n != 1 {
		r.t.Errorf("logged %d errors, want one: %s", n, r.log)
	}
	r.pragma(mends)
	elapse(2 * storage.ProbeInterval)
	must(r.t, r.Err(), <-put(r, 5, 2*storage.ProbeBytes))
	r.wantStored(1, 5)
}

// badEntry submits an entry that contradicts what is stored in one group with others. It
// alone is left out.
func badEntry(t *testing.T, u User) {
	inBubble(t, u, func(r *rig) {
		unlock := r.lock()
		waits := put(r, 1, 0)
		synctest.Wait()
		bad := make(chan error, 1)
		before := put(r, 2, 0)
		r.PutBad(func(err error) { bad <- err })
		after := put(r, 3, 0)
		unlock()
		must(t, <-waits, <-before, <-after)
		if err := <-bad; err == nil || r.Err() != nil || !strings.Contains(r.log.String(), "contradict") {
			t.Errorf("got %v and %v, logged %s", err, r.Err(), r.log)
		}
		r.wantStored(1, 2, 3)
	})
}

// order submits entries that are committed, left out and refused. Each has one outcome,
// in order.
func order(t *testing.T, u User) {
	inBubble(t, u, func(r *rig) {
		var mu sync.Mutex
		var got []string
		note := func(number int) func(error) {
			return func(err error) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, fmt.Sprint(number, err == nil))
			}
		}
		var want []string
		submit := func(from, to int, stored bool) {
			unlock := r.lock()
			for n := from; n <= to; n++ {
				r.Put(n, 0, note(n))
				want = append(want, fmt.Sprint(n, stored))
				if n == 1 {
					synctest.Wait() // a transaction waits with the first one
				}
				if n == 7 {
					r.PutBad(func(error) {})
				}
			}
			synctest.Wait()
			unlock()
			synctest.Wait()
		}
		submit(1, 40, true)
		r.pragma(`query_only = 1`)
		submit(41, 60, false)
		r.pragma(`query_only = 0`)
		elapse(2 * storage.ProbeInterval)
		submit(61, 80, true)
		if !slices.Equal(got, want) {
			t.Errorf("got outcomes %v, want %v", got, want)
		}
	})
}

// closeWhileCommitting closes a store while a transaction and further entries wait. They
// are stored, though the context of Close has ended; what comes later is refused.
func closeWhileCommitting(t *testing.T, u User) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, u, dir)
		unlock := r.lock()
		outcomes := []<-chan error{put(r, 1, 0)}
		synctest.Wait()
		for n := 2; n <= 5; n++ {
			outcomes = append(outcomes, put(r, n, 0))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Close(ended); err == nil {
			t.Error("Close returned before the entries were stored")
		}
		late := put(r, 6, 0)
		if err := <-late; err == nil {
			t.Error("an entry was accepted after Close")
		}
		unlock()
		for _, outcome := range outcomes {
			must(t, <-outcome)
		}
		must(t, r.Close(t.Context()))
		again := newRig(t, u, dir)
		again.wantStored(1, 2, 3, 4, 5)
		must(t, again.Close(t.Context()))
	})
}
