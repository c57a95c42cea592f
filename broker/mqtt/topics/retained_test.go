package topics_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/mqtt/topics"
	"signalbox/scripts/suite"
)

// expectedRetained returns what matches a filter, in order; "" is for all.
func expectedRetained(model map[string]int, filter string) (all []topics.RetainedMessage[int]) {
	for _, topic := range slices.Sorted(maps.Keys(model)) {
		if filter == "" || matches(filter, topic) {
			all = append(all, topics.RetainedMessage[int]{Topic: topic, Message: model[topic]})
		}
	}
	return all
}

func matched(r *topics.Retained[int], filter string) (all []topics.RetainedMessage[int]) {
	for topic, m := range r.Match(filter) {
		all = append(all, topics.RetainedMessage[int]{Topic: topic, Message: m})
	}
	return all
}

// TestRetained compares random changes, matches and pages with a map.
func TestRetained(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 2))
	r, model := topics.NewRetained[int](), map[string]int{}
	for i := range 1500 {
		changeRetained(t, rnd, r, model, i)
		filter := randomFilter(rnd)
		switch rnd.IntN(8) {
		case 0, 1:
			filter = randomTopic(rnd)
		case 2:
			filter = ""
		}
		want := expectedRetained(model, filter)
		if diff := cmp.Diff(want, matched(r, filter)); diff != "" {
			t.Fatalf("match of %q (-want +got):\n%s", filter, diff)
		}
		offset, count := limits(rnd, len(want))
		total, part := r.Page(filter, offset, count)
		if diff := cmp.Diff(slice(want, offset, count), part); diff != "" || total != len(want) {
			t.Fatalf("%q, %d from %d on: total %d, want %d (-want +got):\n%s", filter, count, offset, total, len(want), diff)
		}
	}
}

// changeRetained sets or deletes the message of a random topic.
func changeRetained(t *testing.T, rnd *rand.Rand, r *topics.Retained[int], model map[string]int, i int) {
	t.Helper()
	topic := randomTopic(rnd)
	want, had := model[topic]
	change := func() (int, bool) { return r.Set(topic, i) }
	if rnd.IntN(3) == 0 {
		change = func() (int, bool) { return r.Delete(topic) }
		delete(model, topic)
	} else {
		model[topic] = i
	}
	if old, ok := change(); old != want || ok != had {
		t.Fatalf("%q had %d, %t; want %d, %t", topic, old, ok, want, had)
	}
	want, had = model[topic]
	if got, ok := r.Get(topic); got != want || ok != had {
		t.Fatalf("%q has %d, %t; want %d, %t", topic, got, ok, want, had)
	}
	if r.Len() != len(model) {
		t.Fatalf("got %d messages, want %d", r.Len(), len(model))
	}
}

// TestRetainedChangesDuringMatch changes topics during an iteration, which neither blocks nor
// sees the changes.
func TestRetainedChangesDuringMatch(t *testing.T) {
	t.Parallel()
	r, model := topics.NewRetained[int](), map[string]int{}
	for i, topic := range []string{"a/a", "a/b", "a/c", "b"} {
		r.Set(topic, i)
		model[topic] = i
	}
	for _, filter := range []string{"#", "a/+", "a/#"} {
		var got []topics.RetainedMessage[int]
		want := matched(r, filter)
		for topic, m := range r.Match(filter) {
			got = append(got, topics.RetainedMessage[int]{Topic: topic, Message: m})
			r.Delete("a/c")
			r.Set("a/b", 7)
			r.Set("a/bb", 8)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", filter, diff)
		}
	}
	for range r.Match("#") {
		break // an iteration may end early
	}
}
