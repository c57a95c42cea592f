package cluster

import (
	"fmt"
	"testing"

	"signalbox/scripts/suite"
)

// TestReplaceAllNodes replaces the machines of a cluster one after the other by empty ones. The last one joins while it reads the
// log from its beginning, when none of the present members was one.
func TestReplaceAllNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	for i := range 200 {
		f.leader().put(t, fmt.Sprint("k", i), "v")
	}
	for _, id := range []NodeID{1, 2, 3} {
		lost := f.nodes[id]
		lost.kill()
		lost.lose()
		leader := f.leader()
		invitation, err := leader.node.AddNode(within(t, suite.HangLimit), member(id))
		must(t, err, f.start(id).node.Join(within(t, suite.HangLimit), spec(id, 1, 2, 3), invitation))
		f.settled(3)
	}
	f.leader().put(t, "last", "v")
}
