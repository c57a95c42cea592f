package cluster

import (
	"fmt"
	"testing"
)

// TestThreeNodes makes a cluster of three and writes at each of them. What was
// written is there when the write returns.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	want := map[string]string{}
	for id, s := range f.nodes {
		key := fmt.Sprint("by ", id)
		s.put(t, key, "x")
		want[key] = "x"
		if got := s.register.get(key); got != "x" {
			t.Errorf("node %d holds %q when its write returns", id, got)
		}
	}
	f.agree(want)
}
