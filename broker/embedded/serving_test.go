package embedded

import (
	"context"
	"testing"
)

// TestInterruptedStep cancels a change of the serving state half-way. The next check
// completes it.
func TestInterruptedStep(t *testing.T) {
	t.Parallel()
	n := startNode(t, 1)
	allow(t, n.Broker, "dev", everything()...)
	for _, to := range []servingState{waiting, meshed} {
		join(t, n.Broker, 5, as("dev", "pw"))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		m := n.cluster
		m.transition.Lock()
		err := m.changeTo(gone, to)
		m.transition.Unlock()
		t.Logf("to %v: %v", to, err)
		if err := m.reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		join(t, n.Broker, 5, as("dev", "pw"), withID("kept"), persistent).Subscribe(1, "news")
	}
}
