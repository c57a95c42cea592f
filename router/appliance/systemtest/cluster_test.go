package systemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// TestCluster covers the life cycle of a cluster: three brokers start to share their
// access control, change it through every node, a fourth joins, one leaves, and in the
// end each is alone again with its data.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	first, second := c.machines[0], c.machines[1]
	first.api.sensor(t, "pump-7", "secret")
	second.add(t, "only-on-2")
	before := first.access(t)
	c.create(t)
	awaitSame(t, c.machines...)
	if got := first.access(t); got != before {
		t.Errorf("the cluster's access control is not that of its first node:\n got %s\nwant %s", got, before)
	}
	if mqtttest.Accepts(t, second.mqtt, "only-on-2", passwordOf("only-on-2")) || !mqtttest.Accepts(t, second.mqtt, "pump-7", "secret") {
		t.Error("the second node continues with its own clients")
	}
	for _, m := range c.machines {
		changeThrough(t, c, m)
	}
	c.wantCutOffEverywhere(t)
	c.joinFourth(t)
	c.leaveSecond(t)
	c.restoreWithoutBroker(t, c.machines[1])
	c.dissolve(t)
}

// changeThrough changes the access control through one node, by each of its APIs. An
// acknowledged change is in force on that node, and soon on all.
func changeThrough(t *testing.T, c *cluster, m *machine) {
	t.Helper()
	name := fmt.Sprint("via-", m.id)
	m.api.must(t, "POST", m.api.at("/roles"), object{"rolename": name, "acls": []object{
		{"acltype": "subscribePattern", "topic": name + "/#", "priority": 0, "allow": true}}}, nil)
	m.add(t, name)
	m.ctrl(t, "addClientRole", name, name, "5")
	m.wantMay(t, name)
	control := newControlAPI(t, m.run, name)
	control.create(object{"username": name + "-control", "password": passwordOf(name + "-control"), "roles": []object{{"rolename": name}}})
	for i := range 5 {
		user := fmt.Sprintf("%s-ctrl-%d", name, i)
		m.ctrl(t, "createClient", user, "-p", passwordOf(user))
		m.ctrl(t, "addClientRole", user, name, "5")
		m.wantMay(t, name, user)
	}
	for _, user := range []string{name, name + "-control", name + "-ctrl-4"} {
		wantEverywhere(t, user, c.machines...)
	}
	awaitSame(t, c.machines...)
	for _, other := range c.machines {
		other.wantMay(t, name)
	}
}

// ctrl runs a command of mosquitto_ctrl dynsec at the machine's broker.
func (m *machine) ctrl(t testing.TB, args ...string) {
	t.Helper()
	got := finish(t, tool(t, "mosquitto_ctrl", m.mqtt, mqttAdmin, mqttPassword, append([]string{"dynsec"}, args...)...))
	if got.code != 0 || strings.Contains(got.stdout+got.stderr, "rror") {
		t.Errorf("node %d: mosquitto_ctrl dynsec %v: %+v", m.id, args[:2], got)
	}
}

// wantMay checks that clients (by default the one with the role's name) may subscribe
// to what the role with that name grants, and to nothing else.
func (m *machine) wantMay(t testing.TB, role string, usernames ...string) {
	t.Helper()
	if len(usernames) == 0 {
		usernames = []string{role}
	}
	for _, username := range usernames {
		for filter, want := range map[string]byte{role + "/x": 1, "other/x": 0x80} {
			if got := m.subscribes(t, username, filter); got != want {
				t.Errorf("node %d: %s subscribes to %s: got %#x, want %#x", m.id, username, filter, got, want)
			}
		}
	}
}

// subscribes returns the code of the SUBACK of a client. A client that connects right
// after its rights changed may be refused or disconnected once, for the rights that it
// had before.
func (m *machine) subscribes(t testing.TB, username, filter string) (code byte) {
	t.Helper()
	suite.WaitFor(t, "a subscription is answered", func() bool {
		d, err := mqtttest.LogIn(t, m.mqtt, "", username, passwordOf(username))
		if err != nil {
			return false
		}
		defer d.Disconnect(0)
		code = d.SubscribeCode(t, filter)
		return code != 0
	})
	return code
}

// wantCutOffEverywhere changes clients through the leader while they are connected to a
// follower, which disconnects them.
func (c *cluster) wantCutOffEverywhere(t *testing.T) {
	t.Helper()
	leader, followers := c.leading(t)
	for _, f := range followers {
		user := fmt.Sprint("disabled-", f.id)
		leader.add(t, user)
		wantEverywhere(t, user, f)
		d := mqtttest.Join(t, f.mqtt, user, passwordOf(user))
		began := time.Now()
		leader.api.must(t, "PUT", leader.api.at("/clients/enable"), object{"username": user, "enable": false}, nil)
		d.WantLost(t)
		t.Logf("disabled on the leader, cut off at node %d after %v", f.id, since(began))
		if mqtttest.Accepts(t, f.mqtt, user, passwordOf(user)) {
			t.Errorf("node %d lets in a client that was disabled", f.id)
		}
	}
}

// joinFourth adds a machine, whose own access control is replaced.
func (c *cluster) joinFourth(t *testing.T) {
	t.Helper()
	m := newMachine(t, 4)
	withSteadyLeader(t, m)
	m.start(t)
	m.add(t, "only-on-4")
	c.connect(t, m)
	c.join(t, m)
	c.machines = append(c.machines, m)
	c.await(t, "active", c.machines...)
	awaitSame(t, c.machines...)
	if m.knows(t, "only-on-4") {
		t.Error("the node that joined keeps a client of its own")
	}
	m.add(t, "via-4")
	wantEverywhere(t, "via-4", c.machines...)
}

// leaveSecond removes a machine. It keeps the access control, and changes it alone.
func (c *cluster) leaveSecond(t *testing.T) {
	t.Helper()
	m := c.machines[1]
	c.console.must(t, "PUT", c.at("/leave"), object{"nodeid": m.id}, nil)
	c.machines = slices.Delete(c.machines, 1, 2)
	c.await(t, "active", c.machines...)
	wantEverywhere(t, "via-4", m)
	wantApart(t, m, c.machines[0], "left")
	awaitSame(t, c.machines...)
}

// restoreWithoutBroker deletes what a machine's broker stored and keeps the rest, as if
// only the service's database had been restored from a backup, and joins the machine
// again.
func (c *cluster) restoreWithoutBroker(t *testing.T, m *machine) {
	t.Helper()
	m.run.stop(t)
	for _, pattern := range []string{"broker.db*", "cluster"} {
		paths, err := filepath.Glob(filepath.Join(m.dir, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: found %v, %v", pattern, paths, err)
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := command(t, configured(nil).environ(m.dir), "data", "forget", "broker.db", "cluster/cluster.db"); got.code != 0 {
		t.Fatalf("data forget ended with %d: %s", got.code, got.stderr)
	}
	m.start(t)
	c.rejoin(t, m)
	m.add(t, "brought-back")
	wantEverywhere(t, "brought-back", c.machines...)
	awaitSame(t, c.machines...)
}

// rejoin adds a machine that lost its data to the cluster again.
func (c *cluster) rejoin(t testing.TB, m *machine) {
	t.Helper()
	suite.WaitFor(t, "the console has reached the broker again", func() bool { return c.console.connected(t, c.brokers[m.id]) })
	began := time.Now()
	c.join(t, m)
	answered := since(began)
	c.await(t, "active", c.machines...)
	t.Logf("node %d without its data: answered after %v, a node again after %v", m.id, answered, since(began))
}

// wantApart checks that each of two machines changes by itself. If they shared a log,
// the one that acknowledges the later change would have the earlier one.
func wantApart(t testing.TB, a, b *machine, occasion string) {
	t.Helper()
	for _, m := range [][2]*machine{{a, b}, {b, a}} {
		earlier, later := fmt.Sprintf("%s-%d", occasion, m[0].id), fmt.Sprintf("%s-%d-later", occasion, m[1].id)
		m[0].add(t, earlier)
		m[1].add(t, later)
		if m[1].knows(t, earlier) {
			t.Errorf("node %d still shares its clients with node %d", m[0].id, m[1].id)
		}
	}
}

// dissolve dissolves the cluster. Every machine continues alone with its data, also
// after a restart.
func (c *cluster) dissolve(t *testing.T) {
	t.Helper()
	var answer struct{ Deleted bool }
	c.console.must(t, "DELETE", c.at("?clustername=plant"), nil, &answer)
	if !answer.Deleted {
		t.Error("the answer does not say that the cluster was deleted")
	}
	if got := c.console.text(t, c.console.inProject("/clusters")); got != "[]" {
		t.Errorf("clusters: got %s, want none", got)
	}
	awaitSame(t, c.machines...)
	for i, m := range c.machines {
		wantApart(t, m, c.machines[(i+1)%len(c.machines)], fmt.Sprint("dissolved-", i))
	}
	last := c.machines[len(c.machines)-1]
	want := last.access(t)
	last.run.stop(t)
	last.start(t)
	if got := last.access(t); got != want {
		t.Errorf("after a restart:\n got %s\nwant %s", got, want)
	}
	wantApart(t, last, c.machines[0], "restarted")
}
