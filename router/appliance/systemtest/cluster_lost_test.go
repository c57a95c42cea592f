package systemtest

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestClusterLosesItsFirstMachine kills the machine that has created a cluster. Another one adopts the cluster,
// removes the lost node and has a new one join.
func TestClusterLosesItsFirstMachine(t *testing.T) {
	t.Parallel()
	c := &cluster{}
	for id := range 3 {
		c.machines = append(c.machines, newMachine(t, id+1))
	}
	startAll(t, c.machines...)
	first, second, third := c.machines[0], c.machines[1], c.machines[2]
	c.manageFrom(t, first, second, third)
	first.add(t, "before")
	c.create(t)
	wantEverywhere(t, "before", c.machines...)
	first.run.Kill()

	c.manageFrom(t, second, third)
	c.addBroker(t, first)
	status, answer := c.ask(t, "POST", c.console.inProject("/clusters"), c.body("dynsec"))
	var adopted struct{ ID, Info string }
	if err := json.Unmarshal(answer, &adopted); err != nil || status != 200 || !strings.Contains(adopted.Info, "node 1 ") {
		t.Fatalf("adopt: %d %s, %v", status, answer, err)
	}
	c.id = adopted.ID
	if status, answer := c.ask(t, "PUT", c.at("/leave"), first.node(c.brokers[1])); status != 204 {
		t.Fatalf("remove the lost node: %d %s", status, answer)
	}
	fourth := newMachine(t, 4)
	fourth.start(t)
	c.machines = []*machine{second, third, fourth}
	c.connect(t, fourth)
	c.join(t, fourth)
	c.await(t, "active", c.machines...)
	wantEverywhere(t, "before", c.machines...)
	for _, m := range c.machines {
		m.add(t, "after-"+m.api.embedded)
		wantEverywhere(t, "after-"+m.api.embedded, c.machines...)
	}
}
