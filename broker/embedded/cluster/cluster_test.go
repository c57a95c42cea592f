package cluster

import (
	"fmt"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestThreeNodes creates a cluster of three nodes and writes at each of them. A node has applied a
// write when it returns.
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

// TestOnlyVoterLeadsAtOnce creates a cluster with a heartbeat timeout of an hour, and restarts the
// only voter: it does not wait for a leader.
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
