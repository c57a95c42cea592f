package topics_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/mqtt/topics"
)

// TestIndexConcurrently changes subscriptions during matching and listing. A subscriber that
// stays is in every result, and no result changes.
func TestIndexConcurrently(t *testing.T) {
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
					t.Errorf("a subscriber that stays is missing from %+v", m.Subscribers)
				}
				for range m.Groups[0].RoundRobin() {
					x.List(1, 2, func(f string) bool { return f != "a/b" })
				}
				if diff := cmp.Diff(who(before), who(m.Subscribers)); diff != "" {
					t.Errorf("a result was changed (-before +after):\n%s", diff)
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

// TestGeneration caches results by generation, as a publisher does, while subscribers are
// added: one whose Subscribe has returned is in every result that counts as valid.
func TestGeneration(t *testing.T) {
	t.Parallel()
	x := topics.NewIndex[int]()
	var wg sync.WaitGroup
	subscribed := make(chan int)
	for range 2 {
		wg.Go(func() {
			generation, kept := x.Generation(), x.Match("a/b")
			for who := range subscribed {
				for range 50 { // while the next one subscribes
					if now := x.Generation(); now != generation {
						generation, kept = now, x.Match("a/b")
					}
				}
				if !slices.ContainsFunc(kept.Subscribers, func(s topics.Subscriber[int]) bool { return s.Who == who }) {
					t.Errorf("subscriber %d is missing from a result of generation %d", who, generation)
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

// TestRetainedConcurrently writes topics while others match. Every match finds the topics that
// stay, in order and once.
func TestRetainedConcurrently(t *testing.T) {
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
				all := matched(r, "a/+/still")
				if len(all) != 100 || !slices.IsSortedFunc(all, func(a, b topics.RetainedMessage[int]) int { return a.Message - b.Message }) {
					t.Errorf("Match returned %d of 100 topics, or not in order", len(all))
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
