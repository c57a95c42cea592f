package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

// TestStatus shows the service and its brokers, with the cause where one is down.
func TestStatus(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	if got := u.done("status"); !strings.Contains(got, "ready") || !strings.Contains(got, "default/embedded") {
		t.Errorf("all is up: %s", got)
	}
	u.done("broker", "create", "dead\x1b", "--url", "mqtt://127.0.0.1:1")
	suite.WaitFor(t, "the cause is known", func() bool {
		return strings.Contains(u.run("status").out, "not connected: ") && !strings.Contains(u.run("status").out, "not known")
	})
	got := u.run("status")
	if got.code != 6 || !strings.Contains(got.out, `default/dead\x1b`) || !strings.Contains(got.errors, `broker dead\x1b of project default is not connected: `) {
		t.Errorf("one is down: %+v", got)
	}
	var o struct {
		Ready     bool
		Brokers   []struct{ Name, Error string }
		Attention []string
	}
	if err := json.Unmarshal([]byte(u.run("status", "-o", "json").out), &o); err != nil || !o.Ready || len(o.Brokers) != 2 || len(o.Attention) != 1 {
		t.Errorf("json: %+v, %v", o, err)
	}
	if got := u.run("status", "--server", "http://127.0.0.1:1"); got.code != 6 {
		t.Errorf("no service: %+v", got)
	}
	u.refused(4, "UNAUTHORIZED", "status", "--server", u.api.URL)
}

// TestCheck has one line and an exit code as a plugin of a monitoring system.
func TestCheck(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	want := func(code int, line string, args ...string) {
		t.Helper()
		got := u.run(append([]string{"check"}, args...)...)
		if got.code != code || got.errors != "" || strings.Count(got.out, "\n") != 1 || !strings.Contains(got.out, line) {
			t.Errorf("%v: got %+v, want %d and %q", args, got, code, line)
		}
	}
	want(0, "BROKER OK - 1 of 1 brokers connected | down=0;1;1;0", "broker")
	want(0, "QUEUES OK - no messages wait | queue=0;1000;10000;0", "queues")
	want(1, "QUEUES WARNING - ", "queues", "--warn", "0")
	want(2, "QUEUES CRITICAL - ", "queues", "--crit", "0")
	want(3, "BACKUP UNKNOWN - the service makes no backups: backup.directory is not set", "backup")
	want(0, "CERTIFICATES OK - no certificates are stored | days=U;31:;8:", "certificates")
	u.done("broker", "create", "dead", "--url", "mqtt://127.0.0.1:1")
	want(2, "BROKER CRITICAL - 1 of 2 brokers connected; default/dead: ", "broker")
	want(1, "| down=1;1;2;0", "broker", "--crit", "2")
	want(0, "1 of 1", "broker", "--broker", "embedded")
	if got := strings.Join(strings.Fields(u.done("audit", "list", "--operation", "createBroker")), " "); !strings.Contains(got, " createBroker dead done ") {
		t.Errorf("the audit log does not name the broker: %s", got)
	}
	want(3, "BROKER UNKNOWN - there is no broker", "broker", "--broker", "nothing")
	want(3, "UNKNOWN - the service cannot be reached", "broker", "--server", "http://127.0.0.1:1")
	want(3, "UNKNOWN - ", "queues", "--warn", "x")
	want(3, "UNKNOWN - ", "queues", "extra")
	here := "--data_dir=" + t.TempDir()
	want(0, " MiB are free on the disk of ", "disk", here, "--warn", "-1", "--crit", "-1")
	want(1, "DISK WARNING - ", "disk", here, "--warn", "999999999", "--crit", "-1")
	want(2, ";1000000000:;1000000000:", "disk", here, "--warn", "999999999", "--crit", "999999999")
	want(3, "DISK UNKNOWN - data_dir: the free space on the disk of /does/not/exist cannot be determined; name", "disk", "--data_dir=/does/not/exist")
	want(3, "DISK UNKNOWN - ", "disk", "--log.level=loud")
	want(3, "DISK UNKNOWN - ", "disk", "--warn", "x")
}

// TestCheckBackup is CRITICAL while there is no verified backup, or none that is young enough.
func TestCheckBackup(t *testing.T) {
	t.Parallel()
	backups, data := filepath.Join(t.TempDir(), "backups"), ""
	u := newTerminal(t, func(c *appliance.Config) { c.Backup.Directory, data = backups, c.DataDir })
	if got := u.run("check", "backup"); got.code != 2 || !strings.Contains(got.out, "BACKUP CRITICAL - there is no verified backup | age=U;93600;93600;0") {
		t.Errorf("none: %+v", got)
	}
	u.done("service", "create-backup")
	if got := u.run("check", "backup", "--max-age", "1h"); got.code != 0 || !strings.Contains(got.out, "BACKUP OK - the last verified backup is ") || !strings.Contains(got.out, ";3600;3600;0") {
		t.Errorf("one: %+v", got)
	}
	if got := u.run("check", "backup", "--max-age", "0s"); got.code != 2 {
		t.Errorf("too old: %+v", got)
	}
	for _, name := range strings.Fields(u.done("service", "backups", "-o", "name")) {
		u.done("service", "delete-backup", name, "--yes")
	}
	u.done("backup", "create", "--data_dir", data, "--backup.directory", backups)
	if got := u.run("check", "backup", "--max-age", "1h"); got.code != 0 {
		t.Errorf("one by a command of this machine: %+v", got)
	}
}

// TestLogLevel changes the level of the log of a running service.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.done("log", "level", "debug")
	if got := u.done("log", "get-level", "-o", "json"); !strings.Contains(got, `"level":"debug","configured":"info","until":"2`) {
		t.Errorf("after the change: %s", got)
	}
	u.refused(2, "INVALID_REQUEST", "log", "level", "loud")
	u.refused(2, "expects LEVEL", "log", "level")
	u.done("log", "level", "info")
	if got := u.done("log", "get-level", "-o", "json"); !strings.Contains(got, `"level":"info","configured":"info","until":null`) {
		t.Errorf("back to the configured one: %s", got)
	}
}
