package store

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/scripts/suite"
)

// TestQueue returns the entries in order, without removed ones, also after the store is opened
// again.
func TestQueue(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 50)
	<-q.Ready()
	wantHeld(t, q, upTo(1, 50)...)
	first := peek(t, q, 0)[0]
	remove(t, q, upTo(1, 20)...)
	remove(t, q, 30, 32, 49)
	want := slices.DeleteFunc(upTo(20, 50), func(n int) bool { return n == 30 || n == 32 || n == 49 })
	wantHeld(t, q, want...)
	checkStore(t, s)
	second := peek(t, q, 0)[0]
	s = reopen(t, s, Options{})
	q = queueOf(t, s, "c", wide)
	<-q.Ready()
	wantHeld(t, q, want...)
	if diff := cmp.Diff(second, peek(t, q, 0)[0]); diff != "" {
		t.Errorf("an entry has changed (-want +got):\n%s", diff)
	}
	if first.MessageID == second.MessageID || first.MessageID == "" {
		t.Errorf("message IDs %q and %q", first.MessageID, second.MessageID)
	}
	putAll(t, q, 50, 52)
	remove(t, q, want...)
	wantHeld(t, q, 50, 51)
	checkStore(t, s)
}

// TestPeekBounds returns no more than requested, and at least one.
func TestPeekBounds(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 21)
	size := func(n int) int { return n * func() int { e := entry(10); return e.Size() }() }
	for _, c := range []struct {
		after           uint64
		messages, bytes int
		want            []int
	}{
		{0, 3, 1 << 20, upTo(1, 4)},
		{5, 3, 1 << 20, upTo(6, 9)},
		{10, 10, size(4), upTo(11, 15)},
		{10, 10, size(4) - 1, upTo(11, 14)},
		{10, 10, 1, upTo(11, 12)},
		{18, 10, 1 << 20, upTo(19, 21)},
		{20, 10, 1 << 20, nil},
		{1 << 40, 10, 1 << 20, nil},
		{0, 0, 1 << 20, nil},
	} {
		list, err := q.Peek(t.Context(), c.after, c.messages, c.bytes)
		must(t, err)
		if got := numbers(list); !slices.Equal(got, c.want) {
			t.Errorf("behind %d, %d messages and %d bytes at most: got %v, want %v", c.after, c.messages, c.bytes, got, c.want)
		}
	}
}

// TestModel executes random operations on a queue, and compares it with a model.
func TestModel(t *testing.T) {
	t.Parallel()
	for range 3 {
		seed := suite.Seed(t)
		t.Run("", func(t *testing.T) {
			t.Parallel()
			m := &model{t: t, r: rand.New(rand.NewPCG(seed, 0)), s: fresh(t, Options{}), place: map[int]int{}}
			m.q = onlyQueue(t, m.s, wide)
			for range 40 {
				m.step()
				if t.Failed() {
					return
				}
			}
		})
	}
}

type model struct {
	t        *testing.T
	r        *rand.Rand
	s        *Store
	q        *Queue
	next     int
	held     []int
	rejected []int       // in the order of their rejection
	place    map[int]int // index in that order
	places   int
}

// came appends messages to the model.
func (m *model) came(numbers ...int) {
	m.held = append(m.held, numbers...)
	for _, n := range numbers {
		m.places++
		m.place[n] = m.places
	}
}

func (m *model) step() {
	t := m.t
	switch m.r.IntN(8) {
	case 0, 1:
		n := 1 + m.r.IntN(600)*(1+m.r.IntN(2)*3)
		putAll(t, m.q, m.next, m.next+n)
		m.came(upTo(m.next, m.next+n)...)
		m.next += n
	case 2, 3, 4:
		gone := m.some()
		m.q.Remove(ids(t, m.q, gone...))
		m.held = without(m.held, gone)
		wantHeld(t, m.q, m.held...)
	case 5:
		gone := m.some()
		gone = gone[:min(len(gone), 20)]
		reject(t, m.q, "no", gone...)
		m.held, m.rejected = without(m.held, gone), append(m.rejected, gone...)
	case 6:
		n, err := m.q.RetryDeadLetters(context.Background(), nil)
		must(t, err)
		if n != len(m.rejected) {
			t.Errorf("put back %d, want %d", n, len(m.rejected))
		}
		m.came(m.rejected...)
		m.rejected = nil
	case 7:
		m.s = reopen(t, m.s, Options{})
		m.q = queueOf(t, m.s, "c", wide)
	}
	slices.SortFunc(m.rejected, func(a, b int) int { return m.place[a] - m.place[b] })
	wantHeld(t, m.q, m.held...)
	checkStore(t, m.s)
}

// some returns some numbers in the queue: the first ones, or random ones.
func (m *model) some() []int {
	if len(m.held) == 0 {
		return nil
	}
	n := m.r.IntN(len(m.held)) + 1
	if m.r.IntN(2) == 0 {
		return slices.Clone(m.held[:n])
	}
	all := slices.Clone(m.held)
	m.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n]
}

func without(list, gone []int) []int {
	set := map[int]bool{}
	for _, n := range gone {
		set[n] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(n int) bool { return set[n] })
}
