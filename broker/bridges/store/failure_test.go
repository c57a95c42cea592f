package store

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"signalbox/broker/bridges"
	"signalbox/broker/storage"
)

// TestRemoveWhileFailing makes the file full or read-only. What is removed then is not
// delivered again, and is deleted when that is possible. An entry that no caller waits for is
// counted as dropped.
func TestRemoveWhileFailing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ breaks, mends string }{
		"full":      {`PRAGMA max_page_count = 1`, `PRAGMA max_page_count = 1000000`},
		"read-only": {`PRAGMA query_only = 1`, `PRAGMA query_only = 0`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { removeWhileFailing(t, tc.breaks, tc.mends) })
		})
	}
}

func removeWhileFailing(t *testing.T, breaks, mends string) {
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 6)
	within(t, s, breaks)
	if err := <-putAsync(t, q, sized(6, 2*storage.ProbeBytes)); err == nil || s.Err() == nil {
		t.Fatalf("got %v and %v", err, s.Err())
	}
	q.Put(entry(8), nil)
	q.Remove(ids(t, q, 2))
	if strings.Contains(breaks, "query_only") {
		const want = "the bridges' database cannot be written to: check the permissions"
		if err := q.Reject(t.Context(), []bridges.Rejection{{ID: 4}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	elapse(3 * storage.ProbeInterval)
	if got := numbers(peek(t, q, 0)); fmt.Sprint(got) != "[1 3 4 5]" {
		t.Errorf("gives %v", got)
	}
	if u := q.Usage(); u.Dropped != 1 {
		t.Errorf("dropped %d, want 1", u.Dropped)
	}
	within(t, s, mends)
	elapse(2 * storage.ProbeInterval)
	must(t, s.Err())
	putAll(t, q, 9, 11)
	wantHeld(t, q, 1, 3, 4, 5, 9, 10)
	checkStore(t, s)
}

// TestClosedWhileFailing returns entries again whose removal failed, and loses none.
func TestClosedWhileFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		q := onlyQueue(t, s, wide)
		putAll(t, q, 1, 6)
		within(t, s, `PRAGMA query_only = 1`)
		if err := <-putAsync(t, q, entry(6)); err == nil {
			t.Error("stored in a file that is read-only")
		}
		q.Remove(ids(t, q, 1, 2))
		if got := peek(t, q, 0); len(got) != 3 {
			t.Errorf("gives %v", numbers(got))
		}
		s = reopen(t, s, Options{})
		wantHeld(t, queueOf(t, s, "c", wide), upTo(1, 6)...)
		checkStore(t, s)
	})
}

// TestDrainFullDisk drains a queue while the disk is full, which frees space.
func TestDrainFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		q := onlyQueue(t, s, wide)
		for n := range 10 {
			must(t, <-putAsync(t, q, sized(n, 100<<10)))
		}
		within(t, s, `PRAGMA max_page_count = 1`)
		if err := <-putAsync(t, q, sized(10, 1<<20)); err == nil || s.Err() == nil {
			t.Fatalf("stored on a full disk: %v", err)
		}
		q.Remove(ids(t, q, upTo(0, 9)...))
		elapse(2 * storage.ProbeInterval)
		if err := s.Err(); err != nil {
			t.Errorf("there is room now: %v", err)
		}
		putAll(t, q, 11, 13)
		wantHeld(t, q, 9, 11, 12)
		checkStore(t, s)
	})
}

// TestConfigsWhileFailing checks the error if a configuration cannot be stored, and that nothing
// was changed.
func TestConfigsWhileFailing(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	_, err := s.configs.ExecContext(t.Context(), `PRAGMA query_only = 1`)
	must(t, err)
	const wantText = "the bridges' database cannot be written to"
	for _, err := range []error{s.PutConfig(t.Context(), "b", "x", document, []string{"d"}), s.Forget(t.Context(), "b")} {
		if err == nil || !strings.Contains(err.Error(), wantText) {
			t.Errorf("got %v, want %q", err, wantText)
		}
	}
	putAll(t, q, 1, 3)
	wantHeld(t, q, 1, 2)
	checkStore(t, s)
}

// TestQueueContradictsFile has a queue that contradicts the file. Entries of other queues in the
// same group are stored.
func TestQueueContradictsFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		said := &strings.Builder{}
		s := fresh(t, Options{Log: toText(said)})
		connect(t, s, "c", "d")
		bad, good := queueOf(t, s, "c", wide), queueOf(t, s, "d", wide)
		putAll(t, good, 1, 5)
		within(t, s, fmt.Sprintf(`INSERT INTO block (id, count, bytes, entries) VALUES (%d, 0, 0, x'00')`, rowID(bad.state.queue, 1)))
		must(t, s.file.Lock(t.Context()))
		putAsync(t, good, entry(5))
		synctest.Wait()
		before, refused, after := putAsync(t, good, entry(6)), putAsync(t, bad, entry(1)), putAsync(t, good, entry(7))
		good.Remove([]uint64{1})
		s.file.Unlock()
		must(t, <-before, <-after)
		if err := <-refused; err == nil || s.Err() != nil || !strings.Contains(said.String(), "contradict") {
			t.Errorf("got %v and %v, logged %s", err, s.Err(), said)
		}
		wantHeld(t, good, 2, 3, 4, 5, 6, 7)
		within(t, s, `DELETE FROM block WHERE count = 0`)
		checkStore(t, s)
	})
}

// damages are statements that damage a row.
var damages = map[string]string{
	"checksum": `UPDATE block SET entries = CAST(substr(entries, 1, 9) || x'7f' || substr(entries, 11) AS BLOB) WHERE id = %d`,
	"version":  `UPDATE block SET entries = x'0900000000' WHERE id = %d`,
	"nothing":  `UPDATE block SET entries = x'' WHERE id = %d`,
	"count":    `UPDATE block SET count = count + 1, bytes = bytes + 80 WHERE id = %d`,
}

// TestDamagedRows checks that damaged rows are omitted, deleted, counted and logged, whichever
// operation reads them first.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		for _, by := range []string{"peek", "remove", "evict", "reject"} {
			t.Run(name+"/"+by, func(t *testing.T) {
				t.Parallel()
				said := &strings.Builder{}
				s := fresh(t, Options{})
				q := onlyQueue(t, s, wide)
				for n := 1; n < 40; n += 10 {
					keepBlock(t, q, n, n+10)
				}
				remove(t, q, 12, 13)
				within(t, s, fmt.Sprintf(damage, rowID(q.state.queue, 11)))
				s = reopen(t, s, Options{Log: toText(said)})
				q = queueOf(t, s, "c", bridges.Bounds{Messages: 38, DropOldest: true, DeadLetters: 10})
				meet(t, q, by)
				want := append(upTo(2, 11), upTo(21, 41)...)
				if by == "evict" {
					want = upTo(21, 42)
				}
				if by == "evict" && name == "count" { // its count was one too high
					want = append(upTo(10, 11), want...)
				}
				peek(t, q, 0)
				wantHeld(t, q, want...)
				if n := strings.Count(said.String(), "messages of a bridge are damaged"); n != 1 || q.Usage().Dropped < 8 {
					t.Errorf("told %d times, dropped %d: %s", n, q.Usage().Dropped, said)
				}
				checkStore(t, s)
			})
		}
	}
}

// meet has an operation read the damaged row, and removes the first entry.
func meet(t *testing.T, q *Queue, by string) {
	t.Helper()
	switch by {
	case "peek":
		peek(t, q, 0)
		remove(t, q, 1)
	case "remove":
		q.Remove([]uint64{1, 11, 14, 20})
		barrier(t, q)
	case "reject":
		must(t, q.Reject(t.Context(), []bridges.Rejection{{ID: 1}, {ID: 15}}))
	case "evict":
		q.SetBounds(bridges.Bounds{Messages: 21, DropOldest: true})
		putAll(t, q, 41, 42)
	}
}

// keepBlock stores entries in one block.
func keepBlock(t *testing.T, q *Queue, from, to int) {
	t.Helper()
	must(t, q.do(t.Context(), func(*committer) error { // the committer waits meanwhile
		for n := from; n < to; n++ {
			q.Put(entry(n), nil)
		}
		return nil
	}))
	barrier(t, q)
}
