package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArrange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filters    []string
		identified bool
		want       map[string]place
	}{
		"apart":               {[]string{"a", "b/+"}, false, map[string]place{"a": {"a", 0}, "b/+": {"b/+", 0}}},
		"one covers all":      {[]string{"a", "a/+", "#"}, false, map[string]place{"a": {"#", 0}, "a/+": {"#", 0}, "#": {"#", 0}}},
		"two that are equal":  {[]string{"+/#", "#"}, false, map[string]place{"+/#": {"#", 0}, "#": {"#", 0}}},
		"they cross":          {[]string{"a/+", "+/b"}, false, map[string]place{"+/b": {"+/b", 0}, "a/+": {"a/+", 1}}},
		"one crosses many":    {[]string{"a/+", "b/+", "+/c"}, false, map[string]place{"+/c": {"+/c", 0}, "a/+": {"a/+", 1}, "b/+": {"b/+", 1}}},
		"covered by a second": {[]string{"a/+", "+/b", "a/c"}, false, map[string]place{"+/b": {"+/b", 0}, "a/+": {"a/+", 1}, "a/c": {"a/+", 1}}},
		"identified":          {[]string{"#", "a", "+/b", "a/+"}, true, map[string]place{"#": {"#", 0}, "a": {"a", 0}, "+/b": {"+/b", 0}, "a/+": {"a/+", 0}}},
	} {
		if diff := cmp.Diff(c.want, arrange(c.filters, c.identified), cmp.AllowUnexported(place{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestArrangeHolds checks what an arrangement promises on many small worlds.
func TestArrangeHolds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	levels := []string{"a", "b", "c", "+"}
	for range 2000 {
		var filters []string
		for range 1 + r.IntN(8) {
			f := levels[r.IntN(4)]
			for range r.IntN(3) {
				f += "/" + levels[r.IntN(4)]
			}
			if r.IntN(4) == 0 {
				f += "/#"
			}
			filters = append(filters, f)
		}
		slices.Sort(filters)
		filters = slices.Compact(filters)
		places := arrange(filters, false)
		for f, p := range places {
			if !Covers(p.root, f) {
				t.Fatalf("%q comes by %q", f, p.root)
			}
			for g, q := range places {
				if p.lane == q.lane && p.root != q.root && Overlap(p.root, q.root) {
					t.Fatalf("%q and %q come by %q and %q on one lane", f, g, p.root, q.root)
				}
			}
		}
		if len(places) != len(filters) {
			t.Fatalf("%d of %q have a place", len(places), filters)
		}
		r.Shuffle(len(filters), func(i, j int) { filters[i], filters[j] = filters[j], filters[i] })
		if diff := cmp.Diff(places, arrange(filters, false), cmp.AllowUnexported(place{})); diff != "" {
			t.Fatalf("it depends on the order: %s", diff)
		}
	}
}

// TestTooManyCross leaves out what no lane is left for, and keeps all others.
func TestTooManyCross(t *testing.T) {
	t.Parallel()
	var filters []string
	for i := range maxLanes + 2 {
		f := ""
		for j := range maxLanes + 2 {
			if i == j {
				f += "/x"
			} else {
				f += "/+"
			}
		}
		filters = append(filters, f)
	}
	filters = append(filters, "alone")
	places := arrange(filters, false)
	if _, ok := places["alone"]; len(places) != maxLanes+1 || !ok {
		t.Errorf("%d places for %d", len(places), len(filters))
	}
}

func TestIdentifier(t *testing.T) {
	t.Parallel()
	lanes := map[int]int{}
	var filters []string
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 { // of which some have the same identifier, as a hash goes
		filters = append(filters, fmt.Sprint("plant/", r.Uint64()))
	}
	type slot struct {
		lane int
		id   uint32
	}
	taken := map[slot]bool{}
	for f, p := range arrange(filters, true) {
		s := slot{p.lane, identifier(f)}
		if s.id < 1 || s.id >= 1<<28 || taken[s] {
			t.Fatalf("%q has an identifier that is taken, or none: %d", f, s.id)
		}
		taken[s] = true
		lanes[p.lane]++
	}
	if lanes[0] < 99_000 || lanes[0] == len(filters) {
		t.Errorf("%v on the lanes", lanes)
	}
	if identifier("a/b") != 108331480 { // kept sessions hold what was made before
		t.Errorf("the identifiers have changed: %d", identifier("a/b"))
	}
}

func BenchmarkArrange(b *testing.B) {
	for _, identified := range []bool{true, false} {
		var filters []string
		for i := range 1000 {
			filters = append(filters, fmt.Sprintf("plant/%d/+/temperature", i))
		}
		b.Run(fmt.Sprint("identified ", identified), func(b *testing.B) {
			for b.Loop() {
				arrange(filters, identified)
			}
		})
	}
}
