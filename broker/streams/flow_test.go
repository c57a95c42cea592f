package streams

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"signalbox/scripts/suite"
)

// TestAnyLoopAtRandom compares findAnyLoop with findLoop of every stream.
func TestAnyLoopAtRandom(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	level := func(of string) string { return string(of[r.IntN(len(of))]) }
	loops := 0
	for range 3000 {
		var all []Definition
		for i := range 1 + r.IntN(8) {
			d := link(fmt.Sprint(i), level("abcd+")+"/"+level("abcdef#"), level("abcd")+"/"+level("abcdef"))
			d.Active = r.IntN(5) > 0
			if r.IntN(5) == 0 {
				d.TargetTopic = ""
			}
			all = append(all, d)
		}
		want := slices.ContainsFunc(all, func(d Definition) bool { return findLoop(all, d) != nil })
		got := findAnyLoop(all)
		if (got != nil) != want {
			t.Fatalf("seed %d: got %q, want a loop: %t, in %+v", seed, got, want, all)
		}
		if !want {
			continue
		}
		loops++
		if len(got) < 3 || got[0] != got[len(got)-1] {
			t.Fatalf("seed %d: %q is no loop", seed, got)
		}
		checkChain(t, all, got)
	}
	if loops < 300 || loops > 2700 {
		t.Errorf("%d of 3000 had loops, which shows too little", loops)
	}
}

// TestAnyLoop checks the bound of a loop, and the names in a path through other engines.
func TestAnyLoop(t *testing.T) {
	t.Parallel()
	all := ring(2 * maxLoop)
	if got := findAnyLoop(all); got != nil {
		t.Errorf("a loop of %d streams was found, which costs too much", len(all))
	}
	if got := findAnyLoop(ring(maxLoop)); len(got) != 2*maxLoop+1 {
		t.Errorf("a loop of %d streams: %d names", maxLoop, len(got))
	}
	peers := []Flow{{"b of node 2", "y", "x"}, {"c of node 3", "y", "z"}}
	if got := strings.Join(findAnyLoop(append(definitions(peers), link("a", "x", "y"))), " "); got != "b of node 2 x a y b of node 2" {
		t.Errorf("got %q", got)
	}
}
