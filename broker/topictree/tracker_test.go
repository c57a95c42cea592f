package topictree_test

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/topictree"
)

// clock is a clock that tests advance.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_000_000)} }

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newTracker returns a tracker with a clock of its own.
func newTracker(edit ...func(*topictree.Options)) (*topictree.Tracker, *clock) {
	c := newClock()
	o := topictree.Options{Now: c.read}
	for _, e := range edit {
		e(&o)
	}
	return topictree.New(o), c
}

// publish observes a message for each topic.
func publish(t *topictree.Tracker, topics ...string) {
	for _, topic := range topics {
		t.Observe(topic, []byte("x"), 0, false)
	}
}

// wantTopics compares all published topics.
func wantTopics(t *testing.T, tree *topictree.Tracker, want ...string) {
	t.Helper()
	got := tree.Page(0, -1).PublishTopics
	if diff := cmp.Diff(append([]string{}, want...), got.Topics); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	if got.Count != len(got.Data) || got.Count != len(got.Topics) {
		t.Errorf("count %d, %d records, %d names", got.Count, len(got.Data), len(got.Topics))
	}
}

func TestLastMessageOfEachTopic(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	tree.Observe("b", []byte("first, and longer"), 0, true)
	c.advance(1500 * time.Millisecond)
	tree.Observe("b", []byte("second"), 2, false)
	tree.Observe("a/b", []byte{0xff, 0}, 1, true)
	tree.Observe("/", nil, 0, false)
	want := []broker.PublishTopic{
		{Topic: "/", LastModified: 1_001_500, Messages: 1},
		{Topic: "a/b", Payload: "/wA=", Encoding: "base64", QoS: 1, Retain: true, LastModified: 1_001_500, Messages: 1},
		{Topic: "b", Payload: "second", QoS: 2, LastModified: 1_001_500, Messages: 2},
	}
	if diff := cmp.Diff(want, tree.Page(0, -1).PublishTopics.Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPayloadsAreTruncated(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 999)
	for _, tt := range []struct{ name, payload, want, encoding string }{
		{"as long as may be", text + "y", text + "y", ""},
		{"longer", text + "yz", text + "y", ""},
		{"within a character", text + "é", text, ""},
		{"within a longer one", text[1:] + "世界", text[1:], ""},
		{"before a character", text[1:] + "éé", text[1:] + "é", ""},
		{"no text", "\xff" + text[:997] + "世界", "", "base64"},
		{"bytes that begin no character", text[2:] + "\x80\x80\x80\x80", "", "base64"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree, _ := newTracker()
			tree.Observe("t", []byte(tt.payload), 0, false)
			got := tree.Page(0, 1).PublishTopics.Data[0]
			if got.Encoding != tt.encoding || tt.encoding == "" && got.Payload != tt.want {
				t.Errorf("got %d bytes, encoding %q, ending in %q", len(got.Payload), got.Encoding, got.Payload[len(got.Payload)-4:])
			}
			if tt.encoding != "" && len(got.Payload) != 1336 {
				t.Errorf("%d characters of base64, want those of 1000 bytes", len(got.Payload))
			}
		})
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	tree, _ := newTracker(func(o *topictree.Options) {
		o.Subscriptions = func() iter.Seq2[string, int] {
			return topictree.Grouped(slices.Values([]string{"#", "a/+", "a/+", "b", "c", "c", "c"}))
		}
	})
	publish(tree, "e", "b", "d", "a", "c")
	for _, tt := range []struct {
		offset, count int
		publish       []string
		subscribe     []broker.SubscribeTopic
	}{
		{0, -1, []string{"a", "b", "c", "d", "e"}, []broker.SubscribeTopic{{Topic: "#", Clients: 1}, {Topic: "a/+", Clients: 2}, {Topic: "b", Clients: 1}, {Topic: "c", Clients: 3}}},
		{1, 2, []string{"b", "c"}, []broker.SubscribeTopic{{Topic: "a/+", Clients: 2}, {Topic: "b", Clients: 1}}},
		{3, 9, []string{"d", "e"}, []broker.SubscribeTopic{{Topic: "c", Clients: 3}}},
		{2, 0, []string{}, []broker.SubscribeTopic{}},
		{7, -1, []string{}, []broker.SubscribeTopic{}},
		{-4, 1, []string{"a"}, []broker.SubscribeTopic{{Topic: "#", Clients: 1}}},
	} {
		got := tree.Page(tt.offset, tt.count)
		if diff := cmp.Diff(tt.publish, got.PublishTopics.Topics); diff != "" || got.PublishTopics.Count != 5 {
			t.Errorf("%d, %d: count %d (-want +got):\n%s", tt.offset, tt.count, got.PublishTopics.Count, diff)
		}
		if diff := cmp.Diff(tt.subscribe, got.SubscribeTopics.Data); diff != "" || got.SubscribeTopics.Count != 4 {
			t.Errorf("%d, %d: count %d (-want +got):\n%s", tt.offset, tt.count, got.SubscribeTopics.Count, diff)
		}
	}
	if published, subscribed := tree.Counts(); published != 5 || subscribed != 4 {
		t.Errorf("counts %d and %d, want 5 and 4", published, subscribed)
	}
}

func TestTopicsWithPrefix(t *testing.T) {
	t.Parallel()
	tree := topictree.New(topictree.Options{TTL: time.Hour})
	for _, topic := range []string{"plant", "plant/", "plant/a", "plant/b/c", "plant0", "a"} {
		tree.Observe(topic, []byte("of "+topic), 1, false)
	}
	for prefix, want := range map[string][]string{
		"": {"a", "plant", "plant/", "plant/a", "plant/b/c", "plant0"}, "plant/": {"plant/", "plant/a", "plant/b/c"}, "x": nil,
	} {
		var got []string
		for topic := range tree.Select(broker.TopicSelection{Prefix: prefix}) {
			got = append(got, topic.Name)
			if last := topic.Last(); last.Topic != topic.Name || last.Payload != "of "+topic.Name {
				t.Errorf("%s: the last message is %+v", topic.Name, last)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", prefix, got, want)
		}
	}
	var got []string
	for topic := range tree.Select(broker.TopicSelection{Names: []string{"a", "none", "plant"}}) {
		if got = append(got, topic.Name); topic.Last().Payload != "of "+topic.Name {
			t.Errorf("%s: the last message is %+v", topic.Name, topic.Last())
		}
	}
	if !slices.Equal(got, []string{"a", "plant"}) {
		t.Errorf("by names: got %q", got)
	}
}

func TestTopicsExpire(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	publish(tree, "a", "b", "c")
	c.advance(40 * time.Second)
	publish(tree, "b")
	c.advance(20*time.Second - 1)
	wantTopics(t, tree, "a", "b", "c")
	c.advance(1)
	wantTopics(t, tree, "b")
	publish(tree, "a")
	if got := tree.Page(0, 1).PublishTopics.Data[0].Messages; got != 1 {
		t.Errorf("%d messages of a topic that had left, want 1", got)
	}
	tree.SetTTL(10 * time.Second)
	wantTopics(t, tree, "a")
	c.advance(10 * time.Second)
	publish(tree, "a") // before a call of Tidy
	if got := tree.Page(0, 1).PublishTopics.Data[0].Messages; got != 1 {
		t.Errorf("%d messages of a topic whose time was over, want 1", got)
	}
}

func TestNoTTLNoTopics(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	publish(tree, "a")
	wantTopics(t, tree, "a")
	tree.SetTTL(0)
	publish(tree, "b")
	wantTopics(t, tree)
	c.advance(time.Hour)
	tree.SetTTL(time.Minute)
	publish(tree, "c")
	wantTopics(t, tree, "c")
	if tree.SetTTL(-time.Second); tree.TTL() != 0 {
		t.Errorf("a TTL of %v", tree.TTL())
	}
}

// smallBudget makes trackers observe four messages per TTL while they are not
// watched.
func smallBudget(o *topictree.Options) { o.IdleBudget = 4 }

func TestLightTrafficIsTrackedBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	tree, c := newTracker(smallBudget)
	for range 10 {
		publish(tree, "a", "b", "a", "a")
		c.advance(30 * time.Second)
		tree.Tidy()
		c.advance(30*time.Second - 1)
		publish(tree) // no message
		c.advance(1)
		tree.Tidy()
	}
	publish(tree, "a", "b")
	if got := tree.Page(0, 1).PublishTopics.Data[0].Messages; got != 1 {
		t.Errorf("%d messages, want those of the last minute: 1", got)
	}
}

func TestHeavyTrafficIsIgnoredWhileNotWatched(t *testing.T) {
	t.Parallel()
	tree, c := newTracker(smallBudget)
	publish(tree, "a", "b", "c", "d", "e")
	publish(tree, "f")
	wantTopics(t, tree) // rather than "a" with a message that may not be its last
	publish(tree, "a", "b", "c", "d", "e", "f", "a")
	wantTopics(t, tree, "a", "b", "c", "d", "e", "f")
	if got := tree.Page(0, 1).PublishTopics.Data[0].Messages; got != 2 {
		t.Errorf("%d messages, want 2", got)
	}
	for i := range 21 {
		if watched := tree.Watched(); watched != (i <= 20) {
			t.Errorf("watched is %v, %d seconds after the last question", watched, 30*i)
		}
		c.advance(30 * time.Second)
		tree.Tidy()
	}
	publish(tree, "a", "b", "c", "d", "e")
	c.advance(time.Minute - 1)
	tree.Tidy()
	publish(tree, "a") // the state is still off
	c.advance(1)
	tree.Tidy()
	publish(tree, "g")
	wantTopics(t, tree, "g")
}

func TestWatched(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*topictree.Tracker){
		"Page":   func(tree *topictree.Tracker) { tree.Page(0, 0) },
		"Counts": func(tree *topictree.Tracker) { tree.Counts() },
	} {
		tree, c := newTracker()
		if tree.TTL(); tree.Watched() {
			t.Error("a request for the TTL makes the tree watched")
		}
		ask(tree)
		if c.advance(600 * time.Second); !tree.Watched() {
			t.Errorf("%s does not make the tree watched", name)
		}
		if c.advance(10 * time.Second); tree.Watched() {
			t.Errorf("%s is remembered too long", name)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	tree, c := newTracker(func(o *topictree.Options) {
		o.Limits = control.Limits{Publish: 3, Subscribe: 2, Payload: 4}
		o.Subscriptions = func() iter.Seq2[string, int] { return topictree.Grouped(slices.Values([]string{"a", "b", "c"})) }
	})
	long := strings.Repeat("x", topictree.MaxTopic)
	publish(tree, long+"y")
	publish(tree, long, "b")
	c.advance(time.Second)
	publish(tree, "c", "d", "d", "b")
	wantTopics(t, tree, "b", "c", long)
	if got := tree.NotTracked(); got != 3 {
		t.Errorf("%d messages were not tracked, want 3", got)
	}
	if got := tree.Page(0, -1).SubscribeTopics; got.Count != 2 || len(got.Data) != 2 {
		t.Errorf("%d filters, %d shown, want 2", got.Count, len(got.Data))
	}
	tree.Observe("c", []byte("12345"), 0, false)
	want := control.Limits{Publish: 2, Subscribe: 1, Payload: 3}
	if tree.SetLimits(want); tree.Limits() != want {
		t.Errorf("limits %+v", tree.Limits())
	}
	wantTopics(t, tree, "b", "c")
	if got := tree.Page(1, 1).PublishTopics.Data[0].Payload; got != "123" {
		t.Errorf("payload %q", got)
	}
	c.advance(time.Hour)
	tree.Tidy()
	publish(tree, "e", "f")
	wantTopics(t, tree, "e", "f")
}

// TestExpiredTopicsAreReplaced replaces every topic of a full tracker by
// another, without a call of Tidy.
func TestExpiredTopicsAreReplaced(t *testing.T) {
	t.Parallel()
	tree, c := newTracker()
	for i := range topictree.DefaultLimit {
		publish(tree, fmt.Sprint("old", i))
		if i == 0 {
			tree.Page(0, 0)
		}
	}
	c.advance(time.Minute)
	for i := range topictree.DefaultLimit / 2 {
		publish(tree, fmt.Sprint("new", i))
	}
	if got := tree.NotTracked(); got != 0 {
		t.Errorf("%d messages were not tracked", got)
	}
	if got := tree.Page(0, 0).PublishTopics.Count; got != topictree.DefaultLimit/2 {
		t.Errorf("%d topics", got)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	tree, _ := newTracker(func(o *topictree.Options) {
		o.Subscriptions = func() iter.Seq2[string, int] {
			return topictree.Grouped(slices.Values([]string{"#", "$SYS/#", "$share/g/a/x", "a/+", "b"}))
		}
	})
	all := []string{"$SYS/x", "$CONTROL/x/v1", "$other", "a/x", "b", "a"}
	publish(tree, all...)
	wantTopics(t, tree, "a", "a/x", "b")
	if got := tree.Page(0, -1).SubscribeTopics.Count; got != 5 {
		t.Errorf("%d filters without a filter, want all", got)
	}
	tree.AddFilter("a/#")
	tree.AddFilter("$SYS/#")
	tree.AddFilter("$CONTROL/#")
	tree.AddFilter("a/#")
	wantTopics(t, tree, "a", "a/x")
	publish(tree, all...)
	wantTopics(t, tree, "$SYS/x", "a", "a/x")
	if got := tree.NotTracked(); got != 0 {
		t.Errorf("%d unwanted messages are counted", got)
	}
	if diff := cmp.Diff([]string{"$SYS/#", "$share/g/a/x", "a/+"}, tree.Page(0, -1).SubscribeTopics.Topics); diff != "" {
		t.Errorf("subscriptions (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a/#", "$SYS/#", "$CONTROL/#"}, tree.Filters()); diff != "" {
		t.Errorf("filters (-want +got):\n%s", diff)
	}
	if !tree.RemoveFilter("a/#") || tree.RemoveFilter("a/#") {
		t.Error("a filter was not there, or is still")
	}
	wantTopics(t, tree, "$SYS/x")
	tree.ClearFilters()
	publish(tree, all...)
	wantTopics(t, tree, "a", "a/x", "b")
}

// TestConcurrentUse publishes, requests and changes settings concurrently. No
// topic that has not expired gets lost.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	tree := topictree.New(topictree.Options{TTL: time.Hour})
	tree.Page(0, 0)
	var publishers, others sync.WaitGroup
	done := make(chan struct{})
	const rounds, topics = 2000, 50
	for p := range 4 {
		publishers.Go(func() {
			for i := range rounds {
				publish(tree, fmt.Sprint("shared/", i%topics), fmt.Sprint("own/", p, "/", i%topics), "$unwanted")
			}
		})
	}
	for _, do := range []func(){
		func() { tree.Page(10, 50) }, func() { tree.Counts() }, tree.Tidy,
		func() { tree.SetTTL(time.Hour + time.Minute) },
		func() { tree.AddFilter("+/#"); tree.RemoveFilter("+/#") },
		func() { tree.SetLimits(control.Limits{Publish: 1000, Subscribe: 1, Payload: 1}) },
	} {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					do()
				}
			}
		})
	}
	publishers.Wait()
	close(done)
	others.Wait()
	got, messages := tree.Page(0, -1).PublishTopics, int64(0)
	for _, one := range got.Data {
		messages += one.Messages
	}
	if got.Count != 5*topics || messages != 8*rounds {
		t.Errorf("%d topics with %d messages, want %d with %d", got.Count, messages, 5*topics, 8*rounds)
	}
}
