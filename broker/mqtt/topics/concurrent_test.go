package topics_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/mqtt/topics"
)

// TestIndexAtOnce changes subscriptions while others match, list and take turns.
// Who stays subscribed must be in every result, and no result may change.
func TestIndexAtOnce(t *testing.T) {
	t.Parallel()
	x := topics.NewIndex[int]()
	x.Subscribe("a/+", -1, topics.Options{QoS: 1, ID: 1})
	x.Subscribe("a/#", -1, topics.Options{QoS: 2, ID: 2})
	x.Subscribe("$share/g/a/b", -2, topics.Options{})
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			filters := []string{"a/b", "a/+", "a/#", "$share/g/a/b", fmt.Sprintf("own/%d/+", who)}
			for i := range 500 {
				f := filters[i%len(filters)]
				x.Subscribe(f, who, topics.Options{ID: uint32(i)})
				x.Subscribe(f, who, topics.Options{QoS: 1})
				if !x.Unsubscribe(f, who) {
					t.Errorf("%d was not subscribed to %q", who, f)
				}
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for range 500 {
				m := x.Match("a/b")
				before := slices.Clone(m.Subscribers)
				i := slices.IndexFunc(m.Subscribers, func(s topics.Subscriber[int]) bool { return s.Who == -1 })
				if i < 0 || !slices.Equal(m.Subscribers[i].IDs, []uint32{1, 2}) || m.Subscribers[i].QoS != 2 {
					t.Errorf("a subscriber that stayed is missing from %+v", m.Subscribers)
				}
				for range m.Groups[0].Turn() {
					x.List(1, 2, func(f string) bool { return f != "a/b" })
				}
				if diff := cmp.Diff(who(before), who(m.Subscribers)); diff != "" {
					t.Errorf("a result has changed (-before +after):\n%s", diff)
				}
			}
		})
	}
	wg.Wait()
	if x.Len() != 3 || x.SharedLen() != 1 {
		t.Errorf("got %d subscriptions, %d shared; want 3, 1", x.Len(), x.SharedLen())
	}
}

func who(all []topics.Subscriber[int]) (names []string) {
	for _, s := range all {
		names = append(names, fmt.Sprint(s.Who, s.Terms))
	}
	return names
}

// TestGeneration keeps results by generation, as a publisher does, while
// subscribers come: whoever has been told that he is subscribed must not be
// missing from a result that is still held to be true.
func TestGeneration(t *testing.T) {
	t.Parallel()
	x := topics.NewIndex[int]()
	var wg sync.WaitGroup
	subscribed := make(chan int)
	for range 2 {
		wg.Go(func() {
			generation, kept := x.Generation(), x.Match("a/b")
			for who := range subscribed {
				for range 50 { // at the same time as the next one subscribes
					if now := x.Generation(); now != generation {
						generation, kept = now, x.Match("a/b")
					}
				}
				if !slices.ContainsFunc(kept.Subscribers, func(s topics.Subscriber[int]) bool { return s.Who == who }) {
					t.Errorf("%d is subscribed, and missing from a result of generation %d", who, generation)
				}
			}
		})
	}
	for who := range 1000 {
		x.Subscribe([]string{"a/b", "a/+", "#"}[who%3], who, topics.Options{})
		subscribed <- who
	}
	close(subscribed)
	wg.Wait()
}

// TestRetainedAtOnce writes topics while others walk. Every walk must find what
// never goes, in order, and nothing twice.
func TestRetainedAtOnce(t *testing.T) {
	t.Parallel()
	r := topics.NewRetained[int]()
	for i := range 100 {
		r.Set(fmt.Sprintf("a/%02d/still", i), i)
	}
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range 2000 {
				topic := fmt.Sprintf("a/%02d/%d", i%100, w)
				r.Set(topic, i)
				if i%3 == 0 {
					r.Delete(topic)
				}
			}
		})
		wg.Go(func() {
			for range 50 {
				all := walked(r, "a/+/still")
				if len(all) != 100 || !slices.IsSortedFunc(all, func(a, b topics.Kept[int]) int { return a.Message - b.Message }) {
					t.Errorf("a walk found %d of 100 topics, or these out of order", len(all))
				}
				total, part := r.Page("a/#", 10, 5)
				if total < 100 || len(part) != 5 {
					t.Errorf("a page has %d of %d topics, want 5 of 100 at least", len(part), total)
				}
			}
		})
	}
	wg.Wait()
}
