package store

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/storage"
)

// ofQoS returns an entry with a number and a QoS.
func ofQoS(n int, qos byte) bridges.Entry {
	e := entry(n)
	e.QoS = qos
	return e
}

// firstStored puts an entry, after which others may be early, and removes it.
func firstStored(t testing.TB, q *Queue) {
	t.Helper()
	must(t, <-putAsync(t, q, ofQoS(1, 1)))
	remove(t, q, 1)
}

// wantStored compares the number of entries in the file.
func wantStored(t testing.TB, s *Store, want int) {
	t.Helper()
	var got int
	must(t, s.reader.db.QueryRowContext(t.Context(), `SELECT (SELECT coalesce(sum(count), 0) FROM block) - (SELECT coalesce(sum(count), 0) FROM removed)`).Scan(&got))
	if got != want {
		t.Errorf("the file has %d entries, want %d", got, want)
	}
}

// TestEarly returns entries before they are stored, in order, unless their QoS is 2. They are settled
// when they are stored.
func TestEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		q := onlyQueue(t, s, wide)
		firstStored(t, q)
		must(t, s.file.Lock(t.Context()))
		settled := putAsync(t, q, ofQoS(2, 1))
		q.Put(ofQoS(3, 0), nil)
		<-q.Ready()
		if got := numbers(peek(t, q, 0)); !slices.Equal(got, []int{2, 3}) {
			t.Errorf("gives %v before they are stored", got)
		}
		if u := q.Usage(); u.Messages != 2 {
			t.Errorf("usage says %d messages, want 2", u.Messages)
		}
		q.Put(ofQoS(4, 2), nil)
		q.Put(ofQoS(5, 0), nil)
		synctest.Wait()
		if got := numbers(peek(t, q, 0)); !slices.Equal(got, []int{2, 3}) {
			t.Errorf("gives %v, of which some must be stored first", got)
		}
		if len(settled) > 0 {
			t.Error("settled before it is stored")
		}
		s.file.Unlock()
		must(t, <-settled)
		barrier(t, q) // the others need not be stored in the same transaction
		wantHeld(t, q, 2, 3, 4, 5)
		wantStored(t, s, 4)
		checkStore(t, s)
		wantHeld(t, queueOf(t, reopen(t, s, Options{}), "c", wide), 2, 3, 4, 5)
	})
}

// TestElided delivers entries before they are stored. They are settled and never stored; what is not
// delivered is stored and returned again after the end of the process.
func TestElided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		q := onlyQueue(t, s, wide)
		firstStored(t, q)
		for n := 2; n < 5; n++ {
			q.Put(ofQoS(n, 0), nil)
		}
		q.Remove(ids(t, q, 2, 3, 4))
		elapse(2 * gatherTime)
		wantHeld(t, q)
		wantStored(t, s, 0)
		must(t, s.file.Lock(t.Context()))
		putAsync(t, q, ofQoS(5, 1)) // which the committer takes alone
		synctest.Wait()
		var settled []<-chan error
		for n := 6; n < 10; n++ {
			settled = append(settled, putAsync(t, q, ofQoS(n, 1)))
		}
		q.Remove(ids(t, q, 5, 6, 8))
		s.file.Unlock()
		for _, c := range settled {
			must(t, <-c)
		}
		wantHeld(t, q, 7, 9)
		wantStored(t, s, 2)
		checkStore(t, s)
		s = reopen(t, s, Options{})
		q = queueOf(t, s, "c", wide)
		wantHeld(t, q, 7, 9)
		putAll(t, q, 10, 12)
		wantHeld(t, q, 7, 9, 10, 11)
		checkStore(t, s)
	})
}

// TestDeferred stores entries that no caller waits for, and removals, together and soon.
func TestDeferred(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		q := onlyQueue(t, s, wide)
		putAll(t, q, 1, 3)
		begun := time.Now()
		q.Remove(ids(t, q, 1))
		q.Put(ofQoS(3, 0), nil)
		elapse(gatherTime / 2)
		q.Put(ofQoS(4, 0), nil)
		synctest.Wait()
		wantStored(t, s, 2)
		must(t, <-putAsync(t, q, ofQoS(5, 1)))
		wantStored(t, s, 4)
		if d := time.Since(begun); d != gatherTime/2 {
			t.Errorf("an entry for which a caller waits was stored after %v", d)
		}
		q.Put(ofQoS(6, 0), nil)
		elapse(gatherTime)
		wantStored(t, s, 5)
		wantHeld(t, q, 2, 3, 4, 5, 6)
	})
}

// TestIDsAfterCrash never uses an ID twice, although an entry that was delivered early is not
// stored if the process is killed.
func TestIDsAfterCrash(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 3)
	var given []string
	keep := func(q *Queue, n int) {
		for _, e := range peek(t, q, 0) {
			if int(e.At) == n {
				given = append(given, e.MessageID)
			}
		}
	}
	dir := t.TempDir()
	must(t, q.do(t.Context(), func(*committer) error { // the committer waits meanwhile
		q.Put(ofQoS(3, 0), nil)
		putAsync(t, q, ofQoS(4, 1))
		keep(q, 3)
		keep(q, 4)
		for _, name := range []string{"bridges.db", "bridges.db-wal"} {
			copyFile(t, filepath.Join(filepath.Dir(s.file.Path()), name), filepath.Join(dir, name))
		}
		return nil
	}))
	killed := open(t, dir, Options{})
	defer shut(t, killed)
	after := queueOf(t, killed, "c", wide)
	wantHeld(t, after, 1, 2)
	putAll(t, after, 5, 7)
	keep(after, 5)
	keep(after, 6)
	if slices.Sort(given); len(given) != 4 || len(slices.Compact(given)) != 4 {
		t.Errorf("message IDs %v", given)
	}
	checkStore(t, killed)
}

func copyFile(t *testing.T, from, to string) {
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.Create(to)
	must(t, err)
	_, err = io.Copy(out, in)
	must(t, err, out.Close())
}

// TestReservation stores an entry when all reserved IDs were given to entries that were not stored.
func TestReservation(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	firstStored(t, q)
	for n := 2; n < reservation+100; n++ {
		q.Put(ofQoS(n, 0), nil)
		list := peek(t, q, 0)
		if len(list) == 0 { // it has to be stored first
			barrier(t, q)
			list = peek(t, q, 0)
		}
		if got := numbers(list); len(got) != 1 || got[0] != n {
			t.Fatalf("gives %v, want %d", got, n)
		}
		q.Remove([]uint64{list[0].ID})
	}
	wantHeld(t, q)
	checkStore(t, s)
}

// TestEarlyBounds has more entries than fit: those beyond the bounds of a queue, of the store and of
// memory are not early.
func TestEarlyBounds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		max    int64
		bounds bridges.Bounds
		size   int
		early  int
		stored int
	}{
		"messages": {0, bridges.Bounds{Messages: 10}, 100, 10, 10},
		"bytes":    {0, bridges.Bounds{Bytes: 1000}, 100, 10, 10},
		"store":    {1000, wide, 100, 10, 10},
		"oldest":   {0, bridges.Bounds{Messages: 10, DropOldest: true}, 100, 10, 10},
		"memory":   {0, wide, 1 << 20, 3, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t, Options{MaxBytes: c.max})
			q := onlyQueue(t, s, c.bounds)
			firstStored(t, q)
			must(t, s.file.Lock(t.Context()))
			for n := range 20 {
				q.Put(sized(3*n, c.size), nil) // of QoS 0
			}
			if got := len(peek(t, q, 0)); got != c.early {
				t.Errorf("%d are early, want %d", got, c.early)
			}
			if early, memory := s.queues.early.Load(), s.queues.memory.Load(); early != int64(c.early*c.size) || memory > windowBytes {
				t.Errorf("%d bytes are early, %d in memory", early, memory)
			}
			s.file.Unlock()
			barrier(t, q)
			wantStored(t, s, c.stored)
			if u := q.Usage(); u.Messages != int64(c.stored) || u.Dropped != int64(20-c.stored) || s.queues.early.Load() != 0 {
				t.Errorf("usage is %+v, %d bytes are early", u, s.queues.early.Load())
			}
			if got := numbers(peek(t, q, 0)); c.bounds.DropOldest && got[0] != 3*10 {
				t.Errorf("holds %v", got)
			}
			checkStore(t, s)
		})
	}
}

// TestEarlyWhileFailing cannot store early entries: one that was delivered is settled all the same,
// the others are refused and no longer returned.
func TestEarlyWhileFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		q := onlyQueue(t, s, wide)
		firstStored(t, q)
		within(t, s, `PRAGMA query_only = 1`)
		must(t, s.file.Lock(t.Context()))
		delivered, refused := putAsync(t, q, ofQoS(2, 1)), putAsync(t, q, ofQoS(3, 1))
		q.Put(ofQoS(4, 0), nil)
		q.Remove(ids(t, q, 2))
		s.file.Unlock()
		must(t, <-delivered)
		if err := <-refused; err == nil || s.Err() == nil {
			t.Errorf("got %v and %v", err, s.Err())
		}
		synctest.Wait()
		elapse(2 * gatherTime)
		q.Put(ofQoS(5, 0), nil)
		if got := peek(t, q, 0); len(got) > 0 {
			t.Errorf("gives %v", numbers(got))
		}
		synctest.Wait()
		elapse(2 * gatherTime)
		if u := q.Usage(); u.Messages != 0 || u.Dropped != 2 || s.queues.early.Load() != 0 {
			t.Errorf("usage is %+v", u)
		}
		within(t, s, `PRAGMA query_only = 0`)
		elapse(2 * storage.ProbeInterval)
		must(t, s.Err())
		putAll(t, q, 6, 9)
		wantHeld(t, q, 6, 7, 8)
		checkStore(t, s)
	})
}

// TestEarlyAndRetried keeps the order of IDs if dead letters are retried while entries are put.
func TestEarlyAndRetried(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 30)
	reject(t, q, "no", upTo(1, 30)...)
	for n := 30; n < 90; n += 3 { // of QoS 0
		q.Put(entry(n), nil)
		if _, err := q.RetryDeadLetters(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		reject(t, q, "again", upTo(1, 30)...)
	}
	barrier(t, q)
	list := peek(t, q, 0)
	if got := numbers(list); len(got) != 20 || !slices.IsSorted(got) {
		t.Errorf("gives %v", got)
	}
	checkStore(t, s)
}

// TestEarlyAndDeleted deletes a queue with early entries: nothing of it is left.
func TestEarlyAndDeleted(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	connect(t, s, "c", "d")
	q, other := queueOf(t, s, "c", wide), queueOf(t, s, "d", wide)
	firstStored(t, q)
	q.Put(ofQoS(2, 0), nil)
	connect(t, s, "d")
	q.Put(ofQoS(3, 0), nil)
	barrier(t, other)
	if got := peek(t, q, 0); len(got) > 0 || s.queues.early.Load() != 0 || s.queues.memory.Load() != 0 {
		t.Errorf("gives %v, %d bytes are early and %d in memory", numbers(got), s.queues.early.Load(), s.queues.memory.Load())
	}
	wantStored(t, s, 0)
	checkStore(t, s)
}
