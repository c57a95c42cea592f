package bridges

import (
	"testing"

	"signalbox/broker"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filter, topic string
		want          bool
	}{
		{"#", "a/b", true}, {"a/#", "a", true}, {"a/#", "a/b/c", true}, {"a/#", "ab", false}, {"a/+", "a", false},
		{"a/+", "a/", true}, {"+", "a", true}, {"+/+", "/a", true}, {"+", "/a", false}, {"a/b", "a/b/c", false}, {"a/b/c", "a/b", false},
		{"a/+/#", "a", false}, {"a/+/#", "a/b", true}, {"/#", "a", false}, {"a", "a", true},
	} {
		if got := broker.FilterMatches(c.filter, c.topic); got != c.want {
			t.Errorf("FilterMatches(%q, %q) is %v", c.filter, c.topic, got)
		}
	}
}

// FuzzOverlap checks that filters that match a common topic overlap, in either order.
func FuzzOverlap(f *testing.F) {
	for _, s := range [][3]string{{"a/#", "a/+", "a/b"}, {"#", "a", "a"}, {"+/b", "a/+", "a/b"}, {"a/#", "a", "a"}, {"a/+/#", "a/b", "a/b"}, {"a", "b", "c"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, a, b, topic string) {
		if !broker.ValidFilter(a) || !broker.ValidFilter(b) || !broker.ValidTopic(topic) {
			return
		}
		if overlap(a, b) != overlap(b, a) {
			t.Errorf("overlap(%q, %q) depends on their order", a, b)
		}
		if broker.FilterMatches(a, topic) && broker.FilterMatches(b, topic) && !overlap(a, b) {
			t.Errorf("%q and %q both match %q", a, b, topic)
		}
	})
}

func TestOverlapIsNotTooMuch(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{{"a", "b"}, {"a/b", "a"}, {"a/+", "a"}, {"+/a", "+/b"}, {"a/b/#", "a/c/#"}, {"a/+/c", "a/b/d"}, {"a/+/#", "a"}} {
		if overlap(c[0], c[1]) {
			t.Errorf("%q and %q overlap", c[0], c[1])
		}
	}
}
