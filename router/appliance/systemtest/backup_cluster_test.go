package systemtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"signalbox/broker/mqtt/mqtttest"
)

// TestRestoreOfANode loses a node of a cluster with all its data, after the cluster has gone
// on. Restored, it joins again and has the access control of the cluster; that of the backup
// is not in force for a moment. What belongs to the machine is restored.
func TestRestoreOfANode(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	first, lost := c.machines[0], c.machines[1]
	c.create(t)
	first.add(t, "deleted-later")
	wantEverywhere(t, "deleted-later", c.machines...)
	lost.api.must(t, "POST", lost.api.at("/streams"), object{"streamname": "own", "sourceTopic": "a/#", "targetTopic": "b"}, nil)
	restore := lost.backUp(t)
	first.api.must(t, "DELETE", first.api.at("/clients?username=deleted-later"), nil, nil)
	first.add(t, "later")
	lost.run.Kill()
	if err := os.RemoveAll(lost.dir); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, restore(), "--cluster rejoin")
	got := restore("--cluster", "rejoin")
	if got.code != 0 || !strings.Contains(got.stdout, "join its cluster again") {
		t.Fatalf("restore: %+v", got)
	}
	lost.start(t)
	if mqtttest.Accepts(t, lost.mqtt, "deleted-later", passwordOf("deleted-later")) {
		t.Error("the access control of the backup is in force before the node joins again")
	}
	c.rejoin(t, lost)
	wantEverywhere(t, "later", c.machines...)
	awaitSame(t, c.machines...)
	if lost.knows(t, "deleted-later") {
		t.Error("the backup brought a client back that the cluster has deleted")
	}
	if got := lost.api.names(t, "streams"); strings.Join(got, " ") != "own" {
		t.Errorf("streams of the machine: %q", got)
	}
}

// backUp backs up a machine with its key, and returns what restores that.
func (m *machine) backUp(t *testing.T) (restore func(args ...string) outcome) {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	secret, file := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "backup")
	write(t, secret, key.String()+"\n")
	env := configured(nil).environ(m.dir)
	if got := command(t, env, "backup", "create", "--with-key", "--recipient", key.Recipient().String(), file); got.code != 0 {
		t.Fatalf("create: %+v", got)
	}
	return func(args ...string) outcome {
		return command(t, env, append(append([]string{"restore"}, args...), "--identity", secret, file)...)
	}
}
