package systemtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
)

// TestRestoreOfAllNodes loses all nodes of a cluster. As the manual has it, the backup of one node is
// restored alone, which becomes the first node of a new cluster, and another one joins that,
// restored without its broker. The node that still has the log of the lost cluster changes nothing at
// the restored one, and is refused as a node of the new cluster.
func TestRestoreOfAllNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.create(t)
	chosen, rejoins, stale := c.machines[0], c.machines[1], c.machines[2]
	chosen.add(t, "in-backup")
	wantEverywhere(t, "in-backup", c.machines...)
	chosen.api.must(t, "POST", chosen.api.at("/messages"), object{"topic": "kept", "payload": "1", "qos": 1, "retain": true}, nil)
	for _, m := range []*machine{chosen, rejoins} {
		if got := command(t, configured(nil).environ(m.dir), "backup", "create", m.backup()); got.code != 0 {
			t.Fatalf("create: %+v", got)
		}
	}
	chosen.add(t, "after-backup")
	wantEverywhere(t, "after-backup", c.machines...)
	for _, m := range c.machines {
		m.run.stop(t)
	}
	wantRefused(t, restoreNode(t, chosen), "--cluster alone")
	wantRefused(t, restoreNode(t, chosen, "--cluster", "both"), "--cluster")
	for m, how := range map[*machine]string{chosen: "alone", rejoins: "rejoin"} {
		if got := restoreNode(t, m, "--cluster", how); got.code != 0 {
			t.Fatalf("restore %s: %+v", how, got)
		}
	}
	if _, err := os.Stat(filepath.Join(chosen.dir, "cluster", "cluster.db")); !os.IsNotExist(err) {
		t.Errorf("the log of the lost cluster: %v", err)
	}
	startAll(t, c.machines...)
	c.console = chosen.api
	wantAsInBackup(t, chosen)
	c.machines = []*machine{chosen}
	wantCode(t, c.console, "POST", c.console.inProject("/clusters"), c.body("dynsec"), 400, "ALREADY_EXISTS")
	c.console.must(t, "DELETE", c.at("?purge=true"), nil, nil) // the lost cluster
	c.create(t)
	c.join(t, rejoins)
	c.await(t, "active", chosen, rejoins)
	wantEverywhere(t, "in-backup", chosen, rejoins)
	awaitSame(t, chosen, rejoins)
	wantCode(t, c.console, "PUT", c.at("/join"), stale.node(c.brokers[stale.id]), 400, "CONFLICT")
	wantAsInBackup(t, chosen)
	c.await(t, "active", chosen, rejoins)
}

// backup returns the file of the machine's backup.
func (m *machine) backup() string { return filepath.Join(filepath.Dir(m.dir), "node.backup") }

func restoreNode(t *testing.T, m *machine, args ...string) outcome {
	t.Helper()
	return command(t, configured(nil).environ(m.dir), append(append([]string{"restore"}, args...), m.backup())...)
}

// wantAsInBackup checks that a machine has the access control and the message of its backup.
func wantAsInBackup(t *testing.T, m *machine) {
	t.Helper()
	if !m.knows(t, "in-backup") || m.knows(t, "after-backup") {
		t.Errorf("clients %q", m.clients(t))
	}
	if !mqtttest.Accepts(t, m.mqtt, "in-backup", passwordOf("in-backup")) {
		t.Error("a client of the backup is refused")
	}
	if got := m.api.text(t, m.api.at("/messages/retained")); !strings.Contains(got, `"kept"`) {
		t.Errorf("retained messages: %s", got)
	}
}
