package cluster

import (
	"fmt"
	"testing"
	"time"

	"signalbox/scripts/suite"
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

// TestOnlyVoterLeadsAtOnce creates a cluster of nodes that miss their leader after an
// hour, and starts the first of them again: it does not wait for one.
func TestOnlyVoterLeadsAtOnce(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	tune := func(o *Options) {
		o.Timing.Heartbeat, o.Timing.Election, o.Timing.Lease = time.Hour, time.Hour, time.Hour
	}
	f.start(1, tune)
	_, err := f.nodes[1].node.Create(within(t, suite.HangLimit), spec(1, 1, 2))
	must(t, err)
	f.nodes[1].kill()
	f.start(1, tune)
	f.leader()
}
