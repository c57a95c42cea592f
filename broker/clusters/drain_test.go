package clusters

import (
	"testing"

	"signalbox/broker"
)

// TestDrainNode drains nodes until one is left, and undoes that.
func TestDrainNode(t *testing.T) {
	run(t, func(r *rig) {
		id, brokers := r.four()
		drain := func(node int) error { return r.DrainNode(r.t.Context(), project, id, node) }
		undrain := func(node int) error { return r.UndrainNode(r.t.Context(), project, id, node) }
		for _, node := range []int{1, 2} {
			if err := drain(node); err != nil {
				r.t.Fatal(err)
			}
		}
		r.wantError(drain(3), broker.Conflict, "node 3 (n3): No other node")
		r.wantError(drain(4), broker.NotFound, "no such node")
		r.wantError(undrain(4), broker.NotFound, "no such node")
		c := r.wantState(id, "active", 1)
		for i, want := range []broker.Drain{{Drained: true, SessionsLeft: 7}, {Drained: true, SessionsLeft: 7}, {}} {
			if got := c.Nodes[i].Drain; got != want {
				r.t.Errorf("node %d: %+v", i+1, got)
			}
		}
		if err := undrain(2); err != nil {
			r.t.Fatal(err)
		}
		if got := r.wantState(id, "active", 1).Nodes[1].Drain; got != (broker.Drain{}) {
			r.t.Errorf("the second node: %+v", got)
		}
		brokers[2].stopped = true
		r.wantError(drain(3), broker.Unavailable, "node 3")
		brokers[1].noClusters = true
		r.wantError(drain(2), broker.Unsupported, "node 2")
	})
}
