package systemtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// laterMigration is one that the program under test does not have. Its result depends on the content.
const laterMigration = "-- +goose Up\nALTER TABLE projects ADD COLUMN label TEXT NOT NULL DEFAULT '';\n" +
	"UPDATE projects SET label = name || ' of ' || (SELECT count(*) FROM projects);\n"

// buildLaterRelease builds the program with laterMigration.
func buildLaterRelease(t *testing.T) (path string) {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path = filepath.Join(folder, "v9.0.0")
	migration, overlay := filepath.Join(folder, "migration.sql"), filepath.Join(folder, "overlay.json")
	write(t, migration, laterMigration)
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(source, "db", "migrations", "9000_later.sql"): migration}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, string(text))
	t.Setenv("GOFLAGS", "-overlay="+overlay)
	buildVersion(t, source, path, "")
	return path
}

// TestCampaignUpgradeOfSharedData upgrades the nodes of a cluster that shares the data of the platform, one
// after the other, to a release with another schema, while clients publish. The nodes with the former release
// serve the API until the last one is upgraded, then all do. Nothing that was acknowledged is lost.
func TestCampaignUpgradeOfSharedData(t *testing.T) {
	later := buildLaterRelease(t)
	c := &cluster{mode: "hp"}
	for id := range 3 {
		m := newMachine(t, id+1)
		m.shareData = true
		c.machines = append(c.machines, m)
	}
	startAll(t, c.machines...)
	first := c.machines[0]
	c.manageFrom(t, first, c.machines[1:]...)
	c.create(t)
	project, session := first.api.project, first.api.token
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the session", m.id), func() bool { return m.reads(t, session, project) })
		m.api.token, m.api.project, m.api.embedded = session, project, first.api.embedded
	}
	tr := newTraffic(t, first, c.machines...)
	tr.allowDuplicates = true
	for _, m := range c.machines {
		tr.subscribe(t, fmt.Sprint("reader-", m.id), "traffic/#", 1, clientAddresses(m))
	}
	tr.publishAtEach(c.machines)
	tr.awaitAcknowledged(t, 100)

	var created []string
	create := func(m *machine, name string) {
		m.change(t, "POST", "/api/projects", object{"name": name})
		created = append(created, name)
	}
	upgrade := func(m *machine) {
		m.run.stop(t)
		m.program = later
		m.relaunch(t)
		tr.awaitAcknowledged(t, 100)
	}
	create(c.machines[0], "before")
	upgrade(c.machines[0])
	c.machines[0].wantOutdated(t)
	create(c.machines[1], "after the first")
	upgrade(c.machines[1])
	create(c.machines[2], "after the second")
	c.machines[0].run.Kill() // it must not find a schema that only some nodes have
	c.machines[0].relaunch(t)
	for _, m := range c.machines[:2] {
		m.wantOutdated(t)
	}
	create(c.machines[2], "before the last")
	own := c.machines[2].copyWithoutCluster(t)
	upgrade(c.machines[2])
	own.program = later
	for _, file := range []string{"broker.db", "cluster/cluster.db"} {
		if got := own.command(t, "data", "forget", file); got.code != 0 {
			t.Fatalf("forget %s: %+v", file, got)
		}
	}
	own.start(t) // what the later release finds without a cluster it upgrades at once
	if !slices.Contains(own.projects(t), "before the last") {
		t.Errorf("a copy of node 3 without its cluster has the projects %q", own.projects(t))
	}
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d serves the API again", m.id), func() bool { return m.reads(t, session, project) })
		create(m, fmt.Sprint("afterwards at ", m.id))
	}
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has all projects", m.id), func() bool {
			names := m.projects(t)
			return !slices.ContainsFunc(created, func(name string) bool { return !slices.Contains(names, name) })
		})
		if !m.signsInAtConsole(t) {
			t.Errorf("the administrator cannot sign in at node %d", m.id)
		}
	}
	tr.awaitAcknowledged(t, 100)
	tr.check(t)

	// The former release refuses what the later one has changed.
	m := c.machines[2]
	m.run.stop(t)
	if got := finish(t, programCommand(process.Program, m.settings().environ(m.dir), "serve")); got.code == 0 || !strings.Contains(got.stderr, "newer release") {
		t.Errorf("the former release: %+v", got)
	}
}

// relaunch runs the program on a machine that has its data, without a log-in.
func (m *machine) relaunch(t testing.TB) {
	t.Helper()
	m.run = launchProgram(t, cmp.Or(m.program, process.Program), m.dir, m.settings())
	m.run.awaitReady(t)
	m.api.url = m.run.API
}

// wantOutdated checks the responses of a node whose release is not that of the others.
func (m *machine) wantOutdated(t testing.TB) {
	t.Helper()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/api/projects": 503, "/ui/login": 503} {
		resp, err := newClient(t).Get(m.api.url + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want || want == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
			t.Errorf("node %d: %s: %d %v, want %d", m.id, path, resp.StatusCode, resp.Header, want)
		}
	}
}

// copyWithoutCluster stops a machine, and returns another one that has a copy of its data, but for the broker's, and is in
// no cluster.
func (m *machine) copyWithoutCluster(t testing.TB) *machine {
	t.Helper()
	m.run.stop(t)
	other := newMachine(t, m.id)
	if err := os.CopyFS(other.dir, os.DirFS(m.dir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cluster", "broker.db", "broker.db-wal", "broker.db-shm"} {
		if err := os.RemoveAll(filepath.Join(other.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(other.dir, "secret.key"), 0o600); err != nil { // CopyFS adds to the mode
		t.Fatal(err)
	}
	m.relaunch(t)
	return other
}
