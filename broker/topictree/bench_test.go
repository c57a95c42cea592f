package topictree_test

import (
	"fmt"
	"testing"

	"signalbox/broker/topictree"
)

// payload is one of 64 bytes.
var payload = make([]byte, 64)

// exhaustedTracker returns a tracker with an exhausted budget.
func exhaustedTracker() *topictree.Tracker {
	t := topictree.New(topictree.Options{IdleBudget: 1})
	publish(t, "a", "b")
	return t
}

func watchedTracker() *topictree.Tracker {
	t := topictree.New(topictree.Options{})
	t.Page(0, 0)
	return t
}

func TestObserveDoesNotAllocate(t *testing.T) { // AllocsPerRun cannot run in parallel
	for name, tree := range map[string]*topictree.Tracker{"off": exhaustedTracker(), "watched": watchedTracker()} {
		tree.Observe("a/b", payload, 0, false)
		if n := testing.AllocsPerRun(1000, func() { tree.Observe("a/b", payload, 0, false) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	for name, tree := range map[string]*topictree.Tracker{"off": exhaustedTracker(), "watched": watchedTracker()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tree.Observe("sensors/kitchen/temperature", payload, 0, false)
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.RunParallel(func(p *testing.PB) {
				topics := make([]string, 100)
				for i := range topics {
					topics[i] = fmt.Sprintf("sensors/%p/%d", p, i)
				}
				for i := 0; p.Next(); i++ {
					tree.Observe(topics[i%len(topics)], payload, 0, false)
				}
			})
		})
	}
}

func BenchmarkPage(b *testing.B) {
	tree := watchedTracker()
	for i := range topictree.DefaultLimit {
		tree.Observe(fmt.Sprint("sensors/", i), payload, 0, false)
	}
	for _, offset := range []int{0, topictree.DefaultLimit - 100} {
		b.Run(fmt.Sprint(offset), func(b *testing.B) {
			for b.Loop() {
				tree.Page(offset, 100)
			}
		})
	}
}
