package raftlog

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
)

// TestSizes checks the sizes of the entries, also of a log that existed before.
func TestSizes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cluster")
	s := open(t, dir)
	for i := range uint64(10) {
		must(t, s.StoreLog(&raft.Log{Index: 5 + i, Data: make([]byte, 100*(i+1))}))
	}
	check := func(bytes, since int64, tail uint64) {
		t.Helper()
		if s.bytes != bytes || s.Since(12) != since || s.Tail(1950) != tail {
			t.Errorf("%d bytes, %d since entry 12, %d entries at the end; want %d, %d, %d",
				s.bytes, s.Since(12), s.Tail(1950), bytes, since, tail)
		}
	}
	check(5500, 1900, 2)
	must(t, s.DeleteRange(14, 14), s.DeleteRange(5, 7))
	check(3900, 900, 2)
	must(t, s.Close())
	s = open(t, dir)
	defer func() { must(t, s.Close()) }()
	check(3900, 900, 2)
	must(t, s.Clear(nil))
	check(0, 0, 0)
}

// TestLargeEntries deletes many large entries in several transactions.
func TestLargeEntries(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	for i := range uint64(10) {
		must(t, s.StoreLog(&raft.Log{Index: 1 + i, Data: make([]byte, maxDeletionBytes/4)}))
	}
	if front, back := s.deletionSize(1, 9, true), s.deletionSize(2, 10, false); front != 4 || back != 4 {
		t.Errorf("a deletion has %d and %d entries, want 4", front, back)
	}
	must(t, s.StoreLog(&raft.Log{Index: 11, Data: make([]byte, 2*maxDeletionBytes)}))
	if n := s.deletionSize(11, 11, true); n != 1 {
		t.Errorf("a deletion of one entry has %d", n)
	}
	must(t, s.DeleteRange(1, 10))
	if first, last := s.bounds(); first != 11 || last != 11 {
		t.Errorf("the log goes from %d to %d", first, last)
	}
}

// TestAppendWhileDeleting appends and deletes at the same time, as raft does when
// it has taken a snapshot.
func TestAppendWhileDeleting(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	must(t, s.StoreLogs(entries(1, 1)))
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range uint64(400) {
			if err := s.StoreLogs(entries(2+i, 1)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for end := uint64(1); end < 200; end += 3 {
		if _, last := s.bounds(); last > end {
			must(t, s.DeleteRange(1, end))
		}
	}
	wg.Wait()
	first, last := s.bounds()
	if got := uint64(len(contents(t, s))); last != 401 || got != last-first+1 {
		t.Errorf("the log goes from %d to %d and has %d entries", first, last, got)
	}
}
