package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAssignFilters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filters    []string
		identified bool
		want       map[string]assignment
	}{
		"separate":            {[]string{"a", "b/+"}, false, map[string]assignment{"a": {"a", 0}, "b/+": {"b/+", 0}}},
		"one covers all":      {[]string{"a", "a/+", "#"}, false, map[string]assignment{"a": {"#", 0}, "a/+": {"#", 0}, "#": {"#", 0}}},
		"two that are equal":  {[]string{"+/#", "#"}, false, map[string]assignment{"+/#": {"#", 0}, "#": {"#", 0}}},
		"overlap":             {[]string{"a/+", "+/b"}, false, map[string]assignment{"+/b": {"+/b", 0}, "a/+": {"a/+", 1}}},
		"one overlaps many":   {[]string{"a/+", "b/+", "+/c"}, false, map[string]assignment{"+/c": {"+/c", 0}, "a/+": {"a/+", 1}, "b/+": {"b/+", 1}}},
		"covered by a second": {[]string{"a/+", "+/b", "a/c"}, false, map[string]assignment{"+/b": {"+/b", 0}, "a/+": {"a/+", 1}, "a/c": {"a/+", 1}}},
		"identified":          {[]string{"#", "a", "+/b", "a/+"}, true, map[string]assignment{"#": {"#", 0}, "a": {"a", 0}, "+/b": {"+/b", 0}, "a/+": {"a/+", 0}}},
	} {
		if diff := cmp.Diff(c.want, assignFilters(c.filters, c.identified), cmp.AllowUnexported(assignment{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestAssignmentInvariants checks the invariants on random sets of filters.
func TestAssignmentInvariants(t *testing.T) {
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
		assignments := assignFilters(filters, false)
		for f, p := range assignments {
			if !Covers(p.filter, f) {
				t.Fatalf("%q is received by %q", f, p.filter)
			}
			for g, q := range assignments {
				if p.subscriber == q.subscriber && p.filter != q.filter && Overlap(p.filter, q.filter) {
					t.Fatalf("%q and %q are received by %q and %q of one subscriber", f, g, p.filter, q.filter)
				}
			}
		}
		if len(assignments) != len(filters) {
			t.Fatalf("%d of %q are assigned", len(assignments), filters)
		}
		r.Shuffle(len(filters), func(i, j int) { filters[i], filters[j] = filters[j], filters[i] })
		if diff := cmp.Diff(assignments, assignFilters(filters, false), cmp.AllowUnexported(assignment{})); diff != "" {
			t.Fatalf("the assignment depends on the order: %s", diff)
		}
	}
}

// TestTooManyOverlaps omits filters beyond maxSubscribers and keeps all others.
func TestTooManyOverlaps(t *testing.T) {
	t.Parallel()
	var filters []string
	for i := range maxSubscribers + 2 {
		f := ""
		for j := range maxSubscribers + 2 {
			if i == j {
				f += "/x"
			} else {
				f += "/+"
			}
		}
		filters = append(filters, f)
	}
	filters = append(filters, "alone")
	assignments := assignFilters(filters, false)
	if _, ok := assignments["alone"]; len(assignments) != maxSubscribers+1 || !ok {
		t.Errorf("%d assignments for %d filters", len(assignments), len(filters))
	}
}

func TestIdentifier(t *testing.T) {
	t.Parallel()
	counts := map[int]int{}
	var filters []string
	r := rand.New(rand.NewPCG(3, 4))
	for range 100_000 { // some have the same identifier
		filters = append(filters, fmt.Sprint("plant/", r.Uint64()))
	}
	type slot struct {
		index int
		id    uint32
	}
	taken := map[slot]bool{}
	for f, p := range assignFilters(filters, true) {
		s := slot{p.subscriber, identifier(f)}
		if s.id < 1 || s.id >= 1<<28 || taken[s] {
			t.Fatalf("%q has an identifier that is taken, or none: %d", f, s.id)
		}
		taken[s] = true
		counts[p.subscriber]++
	}
	if counts[0] < 99_000 || counts[0] == len(filters) {
		t.Errorf("filters by subscriber: %v", counts)
	}
	if identifier("a/b") != 108331480 { // sessions hold identifiers of earlier runs
		t.Errorf("the identifiers have changed: %d", identifier("a/b"))
	}
}

func BenchmarkAssignFilters(b *testing.B) {
	for _, identified := range []bool{true, false} {
		var filters []string
		for i := range 1000 {
			filters = append(filters, fmt.Sprintf("plant/%d/+/temperature", i))
		}
		b.Run(fmt.Sprint("identified ", identified), func(b *testing.B) {
			for b.Loop() {
				assignFilters(filters, identified)
			}
		})
	}
}
