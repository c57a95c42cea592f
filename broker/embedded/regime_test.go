package embedded

import (
	"context"
	"testing"
)

// TestHalfWay breaks a change of regime off. The next look at the node's place has it
// serve as that demands.
func TestHalfWay(t *testing.T) {
	t.Parallel()
	n := startNode(t, 1)
	allow(t, n.Broker, "dev", everything()...)
	for _, to := range []regime{waiting, meshed} {
		join(t, n.Broker, 5, as("dev", "pw"))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		m := n.cluster
		m.place.Lock()
		err := m.turn(gone, to)
		m.place.Unlock()
		t.Logf("to %v: %v", to, err)
		if err := m.settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		join(t, n.Broker, 5, as("dev", "pw"), withID("kept"), persistent).subscribe(1, "news")
	}
}
