package handlers

import (
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// withoutRate is a topic whose rate is not known.
type withoutRate broker.PublishTopic

func (s withoutRate) Last() broker.PublishTopic    { return broker.PublishTopic(s) }
func (withoutRate) Rate(time.Time) (float64, bool) { return 0, false }

// nodeWith returns the topics of a node, each with one message of a time.
func nodeWith(at int64, names ...string) iter.Seq[broker.KnownTopic] {
	return func(yield func(broker.KnownTopic) bool) {
		for _, name := range names {
			last := broker.PublishTopic{Topic: name, LastModified: at, Messages: 1}
			if !yield(broker.KnownTopic{Name: name, TopicState: withoutRate(last)}) {
				return
			}
		}
	}
}

// TestTopicLevelMergesNodes counts a topic of several nodes once, and adds its messages.
func TestTopicLevelMergesNodes(t *testing.T) {
	t.Parallel()
	nodes := []iter.Seq[broker.KnownTopic]{
		nodeWith(2, "plant/1", "plant/1/a", "plant/1/b"), nodeWith(3, "plant/1", "plant/1/a"), nodeWith(1, "plant/1", "plant/2/c"),
	}
	last := func(topic string, at, messages int64) *broker.PublishTopic {
		return &broker.PublishTopic{Topic: topic, LastModified: at, Messages: messages}
	}
	for search, want := range map[string]struct {
		topics  int
		entries []TopicLevelEntry
	}{
		"":   {4, []TopicLevelEntry{{Name: "1", Topic: "plant/1", Topics: 2, Last: last("plant/1", 3, 3)}, {Name: "2", Topic: "plant/2", Topics: 1}}},
		"/a": {1, []TopicLevelEntry{{Name: "plant/1/a", Topic: "plant/1/a", Last: last("plant/1/a", 3, 2)}}},
	} {
		level := TopicLevel{Prefix: "plant/"}
		var got []TopicLevelEntry
		for _, e := range level.collect(nodes, topicsWanted{whole: search != "", text: search, ended: never}) {
			got = append(got, e.withState(time.Time{}))
		}
		if diff := cmp.Diff(want.entries, got); diff != "" || level.Topics != want.topics {
			t.Errorf("search %q: %d topics, want %d (-want +got):\n%s", search, level.Topics, want.topics, diff)
		}
	}
}

func never() bool { return false }

// manyTopics yields topics in order, and counts those that were read.
func manyTopics(n int, read *int) iter.Seq[broker.KnownTopic] {
	return func(yield func(broker.KnownTopic) bool) {
		for i := range n {
			*read++
			if !yield(broker.KnownTopic{Name: fmt.Sprintf("plant/%07d", i), TopicState: onePerSecond{}}) {
				return
			}
		}
	}
}

// onePerSecond is a topic with a steady rate.
type onePerSecond struct{}

func (onePerSecond) Last() broker.PublishTopic      { return broker.PublishTopic{} }
func (onePerSecond) Rate(time.Time) (float64, bool) { return 1, true }

// TestTopicLevelIsBounded reads a million topics: a search ends with its bound, a level has no
// more entries than its bound but counts all topics, and both end when the time is over.
func TestTopicLevelIsBounded(t *testing.T) {
	t.Parallel()
	const all = 1_000_000
	for name, c := range map[string]struct {
		prefix                string
		want                  topicsWanted
		read, entries, topics int
		cut                   bool
	}{
		"a common text": {"", topicsWanted{whole: true, text: "plant", ended: never}, maxFound + 1, maxFound, maxFound, true},
		"a rare text":   {"", topicsWanted{whole: true, text: "0999999", ended: never}, all, 1, 1, false},
		"a wide level":  {"plant/", topicsWanted{ended: never}, all, maxLevelEntries, maxLevelEntries, true},
		"a branch":      {"", topicsWanted{ended: never}, all, 1, all, false},
		"no time":       {"", topicsWanted{whole: true, text: "none", ended: func() bool { return true }}, timeCheck, 0, 0, true},
	} {
		read, level := 0, TopicLevel{Prefix: c.prefix}
		list := level.collect([]iter.Seq[broker.KnownTopic]{manyTopics(all, &read)}, c.want)
		if read != c.read || len(list) != c.entries || level.Topics != c.topics || level.Cut != c.cut {
			t.Errorf("%s: read %d topics, %d entries, %d topics, cut %t; want %+v", name, read, len(list), level.Topics, level.Cut, c)
		}
		if name == "a branch" {
			if rate := *list[0].withState(time.Time{}).Rate; rate != all {
				t.Errorf("the rate of the branch is %v", rate)
			}
		}
	}
}
