package store

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker/bridges"
)

// TestLargeQueue reads a queue that does not fit into memory.
func TestLargeQueue(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	for n := range 200 {
		putAsync(t, q, sized(n, 50<<10))
	}
	must(t, <-putAsync(t, q, sized(200, 5<<20)))
	wantHeld(t, q, upTo(0, 201)...)
	if w := &q.state.window; w.bytes > windowBytes+5<<20 || w.bytes != s.queues.memory.Load() {
		t.Errorf("the window has %d bytes, all have %d", w.bytes, s.queues.memory.Load())
	}
	remove(t, q, upTo(0, 150)...)
	putAll(t, q, 201, 210)
	wantHeld(t, q, upTo(150, 210)...)
	remove(t, q, upTo(150, 210)...)
	if n := s.queues.memory.Load(); n != 0 {
		t.Errorf("%d bytes are left in memory", n)
	}
	checkStore(t, s)
}

// TestBackAndForth peeks anywhere, while entries at the front stay.
func TestBackAndForth(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	for n := 1; n < 200; n++ {
		putAsync(t, q, sized(n, 40<<10))
	}
	must(t, <-putAsync(t, q, sized(200, 100)))
	for range 30 {
		after := rand.IntN(200)
		list, err := q.Peek(t.Context(), uint64(after), 5, 1<<20)
		must(t, err)
		want := upTo(after+1, min(after+6, 201)) // or fewer at the end of the window
		if got := numbers(list); len(got) == 0 || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("behind %d: got %v", after, got)
		}
	}
	q.Remove(idsUpTo(50, 201))
	wantHeld(t, q, upTo(1, 50)...)
}

func idsUpTo(from, to uint64) (all []uint64) {
	for id := from; id < to; id++ {
		all = append(all, id)
	}
	return all
}

// TestConcurrentUse puts, delivers, removes, rejects and evicts entries concurrently. They are
// returned in order, and none twice.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	for name, bounds := range map[string]bridges.Bounds{
		"wide":   wide,
		"oldest": {Messages: 2000, DropOldest: true, DeadLetters: 50},
		"newest": {Messages: 2000, DeadLetters: 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t, Options{})
			q := onlyQueue(t, s, bounds)
			const total = 10_000
			var ended atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				slots := make(chan struct{}, 3000)
				for n := range total {
					slots <- struct{}{}
					q.Put(sized(n, 100+n%7*100), func(err error) {
						if err != nil {
							t.Error(err)
						}
						<-slots
					})
				}
				for range cap(slots) {
					slots <- struct{}{}
				}
				ended.Store(true)
				q.state.notify()
			})
			given, rejected := consume(t, q, ended.Load)
			wg.Wait()
			barrier(t, q)
			u := q.Usage()
			twice := int64(given) + u.Dropped - total // delivered, and evicted before they were removed
			if twice < 0 || twice > 0 && !bounds.DropOldest || u.Messages != 0 || u.DeadLetters+u.LostDeadLetters != int64(rejected) {
				t.Errorf("gave %d of %d, rejected %d, usage is %+v", given, total, rejected, u)
			}
			if name == "wide" && given != total {
				t.Errorf("lost some: gave %d", given)
			}
			checkStore(t, s)
		})
	}
}

// consume delivers until everything was put and nothing is left.
func consume(t *testing.T, q *Queue, ended func() bool) (given, rejected int) {
	var last uint64
	for after := uint64(0); ; {
		over := ended()
		list, err := q.Peek(context.Background(), after, 1+rand.IntN(300), 1<<16)
		must(t, err)
		if len(list) == 0 {
			if over {
				return given, rejected
			}
			<-q.Ready()
			continue
		}
		var removed []uint64
		for _, e := range list {
			if e.ID <= last {
				t.Errorf("gave %d behind %d", e.ID, last)
			}
			last = e.ID
			removed = append(removed, e.ID)
		}
		if rand.IntN(2) == 0 {
			after = last
		}
		given += len(list)
		if rand.IntN(20) == 0 {
			rejected += refuse(t, q, removed[:1])
			removed = removed[1:]
		}
		q.Remove(removed)
	}
}

// refuse makes a dead letter from an entry, unless it was evicted meanwhile.
func refuse(t *testing.T, q *Queue, ids []uint64) int {
	before := q.Usage()
	must(t, q.Reject(context.Background(), []bridges.Rejection{{ID: ids[0]}}))
	after := q.Usage()
	return int(after.DeadLetters + after.LostDeadLetters - before.DeadLetters - before.LostDeadLetters)
}

// TestGapBehindLargeBlock continues after a block that is larger than a page and followed by a
// gap.
func TestGapBehindLargeBlock(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	must(t, <-putAsync(t, q, sized(1, 2*pageBytes)))
	for n := 2; n < 6; n++ {
		putAll(t, q, n, n+1)
	}
	remove(t, q, 2, 3)
	s = reopen(t, s, Options{})
	q = queueOf(t, s, "c", wide)
	if got := numbers(peek(t, q, 1)); !slices.Equal(got, []int{4, 5}) {
		t.Errorf("behind the large one: got %v", got)
	}
	q.Remove([]uint64{2, 3, 4})
	wantHeld(t, q, 1, 5)
	checkStore(t, s)
}
