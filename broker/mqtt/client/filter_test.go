package client

import (
	"slices"
	"strings"
	"testing"
)

// matches is a naive implementation of MQTT 4.7.
func matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") && strings.ContainsAny(filter[:1], "+#") {
		return false
	}
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, level := range f {
		switch {
		case level == "#":
			return true
		case i == len(t):
			return false
		case level != "+" && level != t[i]:
			return false
		}
		if i == len(t)-1 && len(f) == i+2 && f[i+1] == "#" {
			return true
		}
	}
	return len(f) == len(t)
}

// sequences returns every sequence of 1 to depth levels, not all of them valid filters.
func sequences(depth int, levels ...string) (all []string) {
	last := []string{""}
	for range depth {
		var next []string
		for _, begin := range last {
			for _, l := range levels {
				next = append(next, strings.TrimPrefix(begin+"/"+l, "/"))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

// TestFilters compares with all topics over a small alphabet.
func TestFilters(t *testing.T) {
	t.Parallel()
	topics := sequences(4, "a", "b", "$x")
	var filters []string
	for _, f := range sequences(3, "a", "$x", "+", "#") {
		if i := strings.Index(f, "#"); i < 0 || i == len(f)-1 {
			filters = append(filters, f)
		}
	}
	sets := map[string][]bool{}
	for _, f := range filters {
		for _, topic := range topics {
			sets[f] = append(sets[f], matches(f, topic))
		}
	}
	for _, a := range filters {
		for _, b := range filters {
			both, onlyB := false, false
			for i := range topics {
				both = both || sets[a][i] && sets[b][i]
				onlyB = onlyB || sets[b][i] && !sets[a][i]
			}
			if got := Overlap(a, b); got != both {
				t.Errorf("Overlap(%q, %q) = %t", a, b, got)
			}
			if got := Covers(a, b); got != !onlyB {
				t.Errorf("Covers(%q, %q) = %t", a, b, got)
			}
		}
	}
}

func TestMatching(t *testing.T) {
	t.Parallel()
	const topic = "a/b/c"
	got := slices.Collect(matchingFilters(topic))
	for _, f := range sequences(4, "a", "b", "c", "+", "#") {
		i := strings.Index(f, "#")
		if valid := i < 0 || i == len(f)-1; valid && matches(f, topic) != slices.Contains(got, f) {
			t.Errorf("%q: found %t", f, slices.Contains(got, f))
		}
	}
	if slices.Sort(got); len(slices.Compact(got)) != len(got) {
		t.Error("some are found twice")
	}
	if f, ok := findFilter(topic, identifier("+/b/#")); !ok || f != "+/b/#" {
		t.Errorf("findFilter() = %q, %t", f, ok)
	}
	if f, ok := findFilter(topic, identifier("x")); ok {
		t.Errorf("findFilter() of a filter that does not match = %q", f)
	}
	if _, ok := findFilter(strings.Repeat("a/", maxLevels)+"a", identifier("#")); ok {
		t.Error("the filters of a long topic are enumerated")
	}
}

func FuzzFilters(f *testing.F) {
	f.Add("a/+/#", "a/b", "a/b/c")
	f.Add("#", "+/#", "$x")
	f.Fuzz(func(t *testing.T, a, b, topic string) {
		if a == "" || b == "" || topic == "" || strings.ContainsAny(topic, "+#") {
			return
		}
		for _, filter := range []string{a, b} {
			for i, level := range strings.Split(filter, "/") {
				last := i == strings.Count(filter, "/")
				if level != "#" && level != "+" && strings.ContainsAny(level, "+#") || level == "#" && !last {
					return
				}
			}
		}
		inA, inB := matches(a, topic), matches(b, topic)
		if inA && inB && !Overlap(a, b) {
			t.Errorf("%q matches %q and %q, which are said not to overlap", topic, a, b)
		}
		if inB && !inA && Covers(a, b) {
			t.Errorf("%q matches %q, not %q that is said to cover it", topic, b, a)
		}
	})
}
