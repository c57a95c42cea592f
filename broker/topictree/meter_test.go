package topictree_test

import (
	"math"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/topictree"
)

// TestRate observes a steady topic, one that has become silent and one with a single message.
func TestRate(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	tree := topictree.New(topictree.Options{Now: func() time.Time { return now }, TTL: time.Hour})
	rates := func() map[string]float64 {
		got := map[string]float64{}
		for topic := range tree.Select(broker.TopicSelection{}) {
			got[topic.Name], _ = topic.Rate(now)
		}
		return got
	}
	want := func(what, topic string, rate float64) {
		t.Helper()
		if got := rates()[topic]; math.Abs(got-rate) > rate/20+0.001 {
			t.Errorf("%s: %s has %.3f messages a second, want %.3f", what, topic, got, rate)
		}
	}
	rates() // so that the tree is watched
	tree.Observe("once", nil, 0, false)
	for range 100 { // ten seconds
		tree.Observe("steady", nil, 0, false)
		now = now.Add(100 * time.Millisecond)
	}
	want("while the topic is new", "steady", 10)
	want("after ten seconds", "once", 0.084)
	for range 1200 { // two minutes
		tree.Observe("steady", nil, 0, false)
		now = now.Add(100 * time.Millisecond)
	}
	want("after two minutes", "steady", 10)
	now = now.Add(30 * time.Second)
	want("silent for the window", "steady", 10/math.E)
	now = now.Add(10 * time.Minute)
	want("silent", "steady", 0)
	now = now.Add(time.Hour)
	tree.Observe("steady", nil, 0, false)
	want("after it had expired", "steady", 1)
}
