package systemtest

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestClusterModesRefused requests an unknown mode, and one that needs a listener for
// administrators from brokers without. Nothing is left behind: the same brokers form a
// cluster afterwards.
func TestClusterModesRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.machines[1].add(t, "only-on-2")
	before := []string{c.machines[0].access(t), c.machines[1].access(t)}
	for mode, want := range map[string]struct {
		status int
		code   string
	}{"full": {400, "CONFLICT"}, "half": {400, "INVALID_REQUEST"}} {
		status, answer := c.ask(t, "POST", c.console.inProject("/clusters"), c.body(mode))
		var refusal struct{ Code string }
		if json.Unmarshal(answer, &refusal) != nil || status != want.status || refusal.Code != want.code {
			t.Errorf("%s: got %d %s, want %d %s", mode, status, answer, want.status, want.code)
		}
		if got := c.console.text(t, c.console.inProject("/clusters")); got != "[]" {
			t.Errorf("%s: clusters: got %s, want none", mode, got)
		}
		for i, m := range c.machines {
			if got := m.access(t); got != before[i] {
				t.Errorf("%s: node %d:\n got %s\nwant %s", mode, m.id, got, before[i])
			}
		}
	}
	wantApart(t, c.machines[0], c.machines[1], "refused")
	c.create(t)
	awaitSame(t, c.machines...)
}

// TestClusterNeedsPort uses a broker that has no cluster port.
func TestClusterNeedsPort(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	m.run = serve(t, m.dir, configured(settings{"BROKER_LISTEN": m.mqtt}))
	m.api = root(t, m.run)
	c := &cluster{machines: []*machine{m}, console: m.api, brokers: map[int]string{1: m.api.embedded}}
	if got := m.api.capabilities(t, m.api.embedded); slices.Contains(got, "cluster") {
		t.Errorf("capabilities: got %v", got)
	}
	wantCode(t, m.api, "POST", m.api.inProject("/clusters"), c.body("dynsec"), 405, "NOT_SUPPORTED")
	m.run.stop(t)
	m.start(t)
	if got := m.api.capabilities(t, m.api.embedded); !slices.Contains(got, "cluster") {
		t.Errorf("with a cluster port: capabilities: got %v", got)
	}
}
