package store

import (
	"math/rand/v2"
	"strings"
	"testing"

	"signalbox/broker/bridges"
	"signalbox/scripts/suite"
)

// TestDropNewest drops the newest if the queue is full.
func TestDropNewest(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, bridges.Bounds{Messages: 10})
	putAll(t, q, 1, 16)
	wantHeld(t, q, upTo(1, 11)...)
	remove(t, q, 1, 2, 5)
	putAll(t, q, 20, 30)
	wantHeld(t, q, 3, 4, 6, 7, 8, 9, 10, 20, 21, 22)
	q.SetBounds(bridges.Bounds{Messages: 12})
	putAll(t, q, 30, 40)
	wantHeld(t, q, 3, 4, 6, 7, 8, 9, 10, 20, 21, 22, 30, 31)
	if u := q.Usage(); u.Dropped != 5+7+8 {
		t.Errorf("dropped %d, want %d", u.Dropped, 5+7+8)
	}
	checkStore(t, s)
}

// TestDropOldest drops the oldest if the queue is full.
func TestDropOldest(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, bridges.Bounds{Messages: 10, DropOldest: true})
	putAll(t, q, 1, 26)
	wantHeld(t, q, upTo(16, 26)...)
	remove(t, q, 17, 18, 25)
	putAll(t, q, 26, 32)
	wantHeld(t, q, 21, 22, 23, 24, 26, 27, 28, 29, 30, 31)
	s = reopen(t, s, Options{})
	q = queueOf(t, s, "c", bridges.Bounds{Messages: 5, DropOldest: true})
	putAll(t, q, 32, 33)
	wantHeld(t, q, 28, 29, 30, 31, 32)
	if u := q.Usage(); u.Dropped != 6 {
		t.Errorf("dropped %d, want 6", u.Dropped)
	}
	checkStore(t, s)
}

// sized returns an entry with the given size for the bounds.
func sized(n, size int) bridges.Entry {
	e := entry(n)
	e.Payload = nil
	e.Payload = []byte(strings.Repeat("x", size-e.Size()))
	return e
}

// TestBytes compares a queue that is bounded in bytes with a model that handles one entry at a
// time.
func TestBytes(t *testing.T) {
	t.Parallel()
	for range 2 {
		seed := suite.Seed(t)
		for _, oldest := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				t.Logf("seed %d, oldest %t", seed, oldest)
				r := rand.New(rand.NewPCG(seed, 1))
				bounds := bridges.Bounds{Messages: 60, Bytes: 10_000, DropOldest: oldest}
				s := fresh(t, Options{})
				q, m := onlyQueue(t, s, bounds), &boundedModel{bounds: bounds}
				for n := 1; n < 400; {
					var last <-chan error
					for range 1 + r.IntN(100) {
						e := sized(n, 100+r.IntN(100)*r.IntN(120))
						m.put(n, e.Size())
						last = putAsync(t, q, e)
						n++
					}
					must(t, <-last)
					wantHeld(t, q, m.numbers...)
					gone := m.remove(r.IntN(20))
					remove(t, q, gone...)
				}
				if u := q.Usage(); u.Dropped != m.dropped || u.Bytes != int64(m.bytes) {
					t.Errorf("dropped %d and holds %d bytes, want %d and %d", u.Dropped, u.Bytes, m.dropped, m.bytes)
				}
				checkStore(t, s)
			})
		}
	}
}

// boundedModel is a model of a bounded queue.
type boundedModel struct {
	bounds         bridges.Bounds
	numbers, sizes []int
	bytes          int
	dropped        int64
}

func (m *boundedModel) full(size int) bool {
	return len(m.numbers)+1 > int(m.bounds.Messages) || m.bytes+size > int(m.bounds.Bytes)
}

func (m *boundedModel) put(n, size int) {
	if size > int(m.bounds.Bytes) || m.full(size) && !m.bounds.DropOldest {
		m.dropped++
		return
	}
	for m.full(size) {
		m.remove(1)
		m.dropped++
	}
	m.numbers, m.sizes = append(m.numbers, n), append(m.sizes, size)
	m.bytes += size
}

func (m *boundedModel) remove(n int) (gone []int) {
	n = min(n, len(m.numbers))
	gone = append(gone, m.numbers[:n]...)
	for _, size := range m.sizes[:n] {
		m.bytes -= size
	}
	m.numbers, m.sizes = m.numbers[n:], m.sizes[n:]
	return gone
}

// TestMaxBytes drops the newest of any queue if the store is full.
func TestMaxBytes(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{MaxBytes: 1000})
	connect(t, s, "c", "d")
	c, d := queueOf(t, s, "c", wide), queueOf(t, s, "d", bridges.Bounds{DropOldest: true, DeadLetters: 10})
	for n := range 6 {
		must(t, <-putAsync(t, c, sized(n, 100)), <-putAsync(t, d, sized(n, 100)))
	}
	wantHeld(t, c, upTo(0, 5)...)
	wantHeld(t, d, upTo(0, 5)...)
	remove(t, c, 0, 1)
	reject(t, d, "", 0, 1)
	must(t, <-putAsync(t, c, sized(6, 200)), <-putAsync(t, d, sized(6, 100)))
	wantHeld(t, c, 2, 3, 4, 6)
	wantHeld(t, d, 2, 3, 4)
	s = reopen(t, s, Options{MaxBytes: 1000})
	c, d = queueOf(t, s, "c", wide), queueOf(t, s, "d", wide)
	must(t, <-putAsync(t, c, sized(7, 100)))
	wantHeld(t, c, 2, 3, 4, 6)
	connect(t, s, "d")
	must(t, <-putAsync(t, d, sized(8, 500)), <-putAsync(t, d, sized(9, 100)))
	wantHeld(t, d, 2, 3, 4, 8)
	checkStore(t, s)
}

// TestInboxBound drops only messages without a callback if too much waits to be stored.
func TestInboxBound(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{pending: 10 * (itemWeight + 100)})
	q := onlyQueue(t, s, wide)
	must(t, s.file.Lock(t.Context()))
	for n := range 20 {
		q.Put(sized(n, 100), nil)
	}
	waited := putAsync(t, q, sized(20, 100))
	s.file.Unlock()
	must(t, <-waited)
	got := peek(t, q, 0)
	if u := q.Usage(); u.Dropped != int64(21-len(got)) || len(got) != 11 || got[10].At != 20 {
		t.Errorf("holds %v and dropped %d", numbers(got), u.Dropped)
	}
	checkStore(t, s)
	shut(t, s)
}
