package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRing compares a ring with a slice under random operations.
func TestRing(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	var r ring[int]
	var want []int
	for i := range 20_000 {
		growing := i/1000%2 == 0
		if len(want) == 0 || growing && dice.IntN(3) > 0 || !growing && dice.IntN(3) == 0 {
			r.push(i)
			want = append(want, i)
		} else {
			if got := r.pop(); got != want[0] {
				t.Fatalf("step %d: popped %d, want %d", i, got, want[0])
			}
			want = want[1:]
		}
		if got := contents(&r); !slices.Equal(got, want) {
			t.Fatalf("step %d: holds %v, want %v", i, got, want)
		}
	}
}

func contents(r *ring[int]) (all []int) {
	for i := range r.len() {
		all = append(all, *r.at(i))
	}
	return all
}

// TestRingReleases shows that an empty ring has no large buffer, and that popped elements can be
// collected.
func TestRingReleases(t *testing.T) {
	t.Parallel()
	var r ring[*int]
	for i := range 1000 {
		r.push(&i)
	}
	r.pop()
	if r.buf[0] != nil {
		t.Error("a popped element is still in the buffer")
	}
	for r.len() > 0 {
		r.pop()
	}
	if cap(r.buf) > keepRing {
		t.Errorf("the empty ring has room for %d", cap(r.buf))
	}
	for i := range keepRing {
		r.push(&i)
	}
	for r.len() > 0 {
		r.pop()
	}
	if len(r.buf) != keepRing {
		t.Errorf("a small buffer was not kept: %d", len(r.buf))
	}
}
