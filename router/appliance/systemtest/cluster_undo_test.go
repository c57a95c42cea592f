package systemtest

import (
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// TestClusterCreationIsUndone creates a cluster with a wrong port for its last node. The others have what they
// had before, and a cluster with the right port is created afterwards.
func TestClusterCreationIsUndone(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	first, second, third := c.machines[0], c.machines[1], c.machines[2]
	for _, m := range c.machines {
		m.add(t, "only-on-"+m.api.embedded)
	}
	before := []string{first.access(t), second.access(t), third.access(t)}
	right := third.advertised
	third.advertised = brokertest.FreePort(t, suite.Host())
	status, answer, err := c.console.do(t.Context(), "POST", c.console.inProject("/clusters"), c.body("dynsec"))
	if err != nil || status < 300 || !strings.Contains(string(answer), "undone") || strings.Contains(string(answer), "in place of their own") {
		t.Fatalf("got %d %s, %v", status, answer, err)
	}
	for i, m := range c.machines {
		if got := m.access(t); got != before[i] {
			t.Errorf("node %d: got %s, want %s", m.id, got, before[i])
		}
		for _, other := range c.machines {
			name := "only-on-" + other.api.embedded
			if mqtttest.Accepts(t, m.mqtt, name, passwordOf(name)) != (m == other) {
				t.Errorf("node %d: %s is let in or not, as it must not be", m.id, name)
			}
		}
		m.add(t, "afterwards")
		m.run.stop(t)
	}
	startAll(t, c.machines...)
	c.console = first.api
	for i, m := range c.machines {
		if !m.knows(t, "afterwards") || !m.knows(t, "only-on-"+m.api.embedded) {
			t.Errorf("node %d after a restart: got %s, before %s", m.id, m.access(t), before[i])
		}
	}
	third.advertised = right
	for _, m := range c.machines[1:] {
		suite.WaitFor(t, "the broker is reached again", func() bool { return c.console.connected(t, c.brokers[m.id]) })
	}
	c.create(t)
	awaitSame(t, c.machines...)
}
