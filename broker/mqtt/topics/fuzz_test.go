package topics_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/mqtt/topics"
)

// FuzzFilter compares both structures with the reference for any filter and topic.
func FuzzFilter(f *testing.F) {
	for _, seed := range [][2]string{
		{"a/+/c", "a/b/c"}, {"#", "$SYS/a"}, {"+/#", "a"}, {"a/#", "a"}, {"/+", "/"}, {"+/b", "a/b/c"}, {"a//#", "a//"},
		{"a/b", "a/b"}, {"$share/g/+", "a"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, filter, topic string) {
		if !valid(filter) || !valid(topic) || strings.ContainsAny(topic, "+#") || strings.HasPrefix(filter, "$share/") {
			return
		}
		want := matches(filter, topic)
		x, r := topics.NewIndex[int](), topics.NewRetained[int]()
		x.Subscribe(filter, 1, topics.Options{})
		if got := len(x.Match(topic).Subscribers) == 1; got != want {
			t.Errorf("subscription to %q matches %q: got %t, want %t", filter, topic, got, want)
		}
		r.Set(topic, 1)
		if got := len(matched(r, filter)) == 1; got != want {
			t.Errorf("%q matches the retained %q: got %t, want %t", filter, topic, got, want)
		}
		if !x.Unsubscribe(filter, 1) || len(x.Match(topic).Subscribers) != 0 {
			t.Errorf("the subscription to %q cannot be ended", filter)
		}
	})
}

// FuzzRetained matches and pages any set of topics, one per line.
func FuzzRetained(f *testing.F) {
	f.Add("a/+/c", "a\na/b\na b/c\na/b/c\na/b /c\na/b0/c\na/c", 1, 2)
	f.Add("+/b/+/d", "a/b/c/d\na/b/c/e\na/c/c/d\nb/b//d\n$a/b/c/d", 0, -1)
	f.Add("a/#", "a\na \na/\na/b\na0", 0, 9)
	f.Add("", "$\n%\n#", 0, 1)
	f.Fuzz(func(t *testing.T, filter, lines string, offset, count int) {
		if filter != "" && !valid(filter) {
			return
		}
		r, model := topics.NewRetained[int](), map[string]int{}
		for i, topic := range strings.Split(lines, "\n") {
			if valid(topic) && !strings.ContainsAny(topic, "+#") {
				r.Set(topic, i)
				model[topic] = i
			}
		}
		want := expectedRetained(model, filter)
		if got := matched(r, filter); !slices.Equal(want, got) {
			t.Errorf("match of %q (-want +got):\n%s", filter, cmp.Diff(want, got))
		}
		total, got := r.Page(filter, offset, count)
		if diff := cmp.Diff(slice(want, offset, count), got); diff != "" || total != len(want) {
			t.Errorf("%q, %d from %d on: total %d, want %d (-want +got):\n%s", filter, count, offset, total, len(want), diff)
		}
	})
}
