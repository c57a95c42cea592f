package ranking_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"signalbox/broker/ranking"
)

// TestRanking compares rankings of random lists with the sorted lists.
func TestRanking(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		all := make([]int, random.IntN(50))
		for i := range all {
			all[i] = random.IntN(20)
		}
		for _, limit := range []int{0, 1, 7, 100} {
			r := ranking.New(limit, cmp.Compare[int])
			for _, v := range all {
				r.Add(v)
			}
			want := slices.Sorted(slices.Values(all))
			want = want[:min(limit, len(want))]
			if got := r.Sorted(); !slices.Equal(got, want) {
				t.Fatalf("the first %d of %d: got %d, want %d", limit, all, got, want)
			}
		}
	}
}

func TestHighestFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b   int
		na, nb string
		want   int
	}{{2, 1, "z", "a", -1}, {1, 2, "a", "z", 1}, {1, 1, "a", "b", -1}, {1, 1, "a", "a", 0}} {
		if got := ranking.HighestFirst(c.a, c.b, c.na, c.nb); got != c.want {
			t.Errorf("%d %q, %d %q: got %d, want %d", c.a, c.na, c.b, c.nb, got, c.want)
		}
	}
}
