package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded/cluster/raftlog"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// found is a finding of doctor.
type found struct{ Level, Check, Object, Text, Remedy string }

// examined is what doctor printed.
type examined struct {
	finished
	Errors, Warnings int
	Running          bool
	Findings         []found
}

// examineIn runs doctor on a data directory, with a configuration file.
func (u *terminal) examineIn(dir, config string, args ...string) (e examined) {
	u.t.Helper()
	path := filepath.Join(u.t.TempDir(), "signalbox.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		u.t.Fatal(err)
	}
	e.finished = u.run(append([]string{"doctor", "-o", "json", "--config", path, "--data_dir", dir}, args...)...)
	if err := json.Unmarshal([]byte(e.out), &e); err != nil {
		u.t.Fatalf("%v: %+v", err, e.finished)
	}
	return e
}

// wants requires a finding that is not ok, and no error or warning of a check that is not named.
// What the machine may be short of is left out.
func (e examined) wants(t *testing.T, want found, also ...string) {
	t.Helper()
	is := func(f found) bool {
		return f.Level == want.Level && f.Check == want.Check && f.Object == want.Object && strings.Contains(f.Text, want.Text)
	}
	i := slices.IndexFunc(e.Findings, is)
	if i < 0 || want.Level != "ok" && e.Findings[i].Remedy == "" && !strings.Contains(e.Findings[i].Text, ": ") {
		t.Errorf("want %+v with a remedy, got %s", want, e.out)
	}
	for _, f := range e.Findings {
		if f.Level != "ok" && f.Check != "disk" && f.Check != want.Check && !slices.Contains(also, f.Check) {
			t.Errorf("also: %+v", f)
		}
	}
	if code := map[bool]int{true: 2}[e.Errors > 0]; e.code != code {
		t.Errorf("exit code %d, want %d", e.code, code)
	}
}

// The ports of a configuration that works; few connections, so that no limit on open files is too low.
const (
	anyMQTT = "broker: {listen: '127.0.0.1:0', max_connections: 100}\n"
	anyPort = "http: {listen: '127.0.0.1:0'}\n" + anyMQTT
)

// prepared returns the data directory of a service that was used, and stopped.
func prepared(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	api := apitest.New(t, apitest.In(dir))
	api.Root.Post("/api/projects/"+api.Project+"/brokers", map[string]any{"name": "refused", "url": "mqtt://127.0.0.1:1", "password": "drowssap"}).Want(200)
	api.Stop()
	must(t, os.Remove(filepath.Join(dir, "initial-credentials")))
	return dir
}

// copied copies a data directory with the modes of its files.
func copied(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// broken is a way to break an installation, and what doctor must say.
type broken struct {
	name   string
	do     func(t *testing.T, dir string) // nil for none
	config string
	want   found
	also   []string // checks that have a consequence to report
}

// brokenFiles are wrong files of the data directory.
var brokenFiles = []broken{
	{"no directory", func(t *testing.T, dir string) { must(t, os.RemoveAll(dir)) }, "", found{Level: "warning", Check: "directory", Text: "does not exist"}, nil},
	{"empty directory", func(t *testing.T, dir string) { must(t, os.RemoveAll(dir), os.Mkdir(dir, 0o700)) }, "", found{Level: "warning", Check: "directory", Text: "has no signalbox.db"}, nil},
	{"key for all", mode("secret.key", 0o644), "", found{Level: "error", Check: "files", Object: "secret.key", Text: "0644"}, []string{"secrets"}},
	{"database for all", mode("broker.db", 0o644), "", found{Level: "warning", Check: "files", Object: "broker.db", Text: "0644"}, nil},
	{"directory for all", mode("certs", 0o755), "", found{Level: "warning", Check: "files", Object: "certs", Text: "0755"}, nil},
	{"database for nobody", mode("history.db", 0o000), "", found{Level: "error", Check: "files", Object: "history.db", Text: "cannot read"}, []string{"databases"}},
	{"key of a client for all", func(t *testing.T, dir string) {
		must(t, os.WriteFile(filepath.Join(dir, "certs", "ca.pem"), []byte("CERTIFICATE"), 0o644), os.WriteFile(filepath.Join(dir, "certs", "client.key"), []byte("-----BEGIN PRIVATE KEY-----"), 0o644))
	}, "", found{Level: "warning", Check: "files", Object: "certs/client.key", Text: "0644"}, nil},
	{"address of a killed service", content("http.address", "127.0.0.1:1"), "", found{Level: "warning", Check: "stale", Object: "http.address"}, nil},
	{"file half replaced", content("identity.new", "{"), "", found{Level: "warning", Check: "stale", Object: "identity.new"}, nil},
	{"rotation interrupted", content("secret.key.next", strings.Repeat("k", 32)), "", found{Level: "warning", Check: "files", Object: "secret.key.next", Text: "secret rotate"}, nil},
	{"passwords not noted", content("initial-credentials", "x"), "", found{Level: "warning", Check: "files", Object: "initial-credentials", Text: "note them"}, nil},
	{"key lost", func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "secret.key"))) }, "", found{Level: "error", Check: "secrets", Object: "secret.key", Text: "is missing"}, nil},
	{"key of another directory", content("secret.key", strings.Repeat("k", 32)), "", found{Level: "error", Check: "secrets", Object: "secret.key", Text: "cannot be decrypted"}, []string{"connections"}},
	{"key damaged", content("secret.key", "short"), "", found{Level: "error", Check: "secrets", Object: "secret.key", Text: "is damaged"}, nil},
	{"database lost", func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "broker.db"))) }, "", found{Level: "error", Check: "identity", Text: "broker.db is missing"}, nil},
	{"database emptied", content("bridges.db", ""), "", found{Level: "error", Check: "identity", Text: "bridges.db is missing or empty"}, nil},
	{"databases exchanged", func(t *testing.T, dir string) {
		text, err := os.ReadFile(filepath.Join(dir, "bridges.db"))
		must(t, err, os.WriteFile(filepath.Join(dir, "streams.db"), text, 0o600))
	}, "", found{Level: "error", Check: "identity", Text: "is a copy of bridges.db"}, []string{"databases"}},
	{"database of another directory", sql("broker.db", "UPDATE data_directory SET identity = 'elsewhere'"), "", found{Level: "error", Check: "identity", Text: "belongs to another data directory"}, nil},
	{"identity damaged", content("identity", "{"), "", found{Level: "error", Check: "identity", Text: "is damaged"}, nil},
	{"database overwritten", content("signalbox.db", strings.Repeat("noise", 4000)), "", found{Level: "error", Check: "databases", Object: "signalbox.db", Text: "is not an SQLite database"}, nil},
	{"page overwritten", overwrittenPage, "", found{Level: "error", Check: "databases", Object: "streams.db", Text: "is damaged"}, nil},
	{"database of a newer release", sql("broker.db", "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)"), "", found{Level: "error", Check: "databases", Object: "broker.db", Text: "newer release"}, nil},
	{"row of the audit log changed", sql("signalbox.db", "UPDATE audit SET operation = 'nothing' WHERE seq = 2"), "", found{Level: "error", Check: "audit", Text: "row 2"}, nil},
	{"clock behind", sql("signalbox.db", "UPDATE audit SET time = time + 86400000 WHERE seq = (SELECT max(seq) FROM audit)"), "", found{Level: "error", Check: "clock", Text: "newest row"}, []string{"audit"}},
	{"node of a cluster down", clusterOf(1), anyPort + "cluster: {listen: '127.0.0.1:0'}\n", found{Level: "error", Check: "cluster", Object: "node 2", Text: "port: "}, []string{"connections"}},
}

// brokenSettings are wrong settings and what they name.
var brokenSettings = []broken{
	{"unknown key", nil, "http: {lissten: x}\n", found{Level: "error", Check: "configuration", Text: "http.lissten"}, nil},
	{"invalid value", nil, "log: {level: loud}\n", found{Level: "error", Check: "configuration", Text: "log.level"}, nil},
	{"disk nearly full", nil, anyPort + "cluster: {min_free_disk: 1125899906842624}\n", found{Level: "error", Check: "disk", Text: "fewer than the 1.0 PiB"}, nil},
	{"no backup was made", nil, anyPort + "backup: {directory: nowhere, schedule: 6h}\n", found{Level: "warning", Check: "backups", Object: "nowhere", Text: "no verified backup"}, nil},
	{"all callers are proxies", nil, "http: {listen: '127.0.0.1:0', trusted_proxies: ['0.0.0.0/0']}\n" + anyMQTT, found{Level: "error", Check: "proxies", Object: "http.trusted_proxies", Text: "every caller"}, nil},
	{"passwords without TLS", nil, "http: {listen: '0.0.0.0:0'}\n" + anyMQTT, found{Level: "warning", Check: "proxies", Object: "http.listen", Text: "without TLS"}, nil},
}

func mode(name string, mode fs.FileMode) func(*testing.T, string) {
	return func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, name), mode)) }
}

func content(name, text string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDoctorNamesWhatIsBroken breaks installations, one at a time.
func TestDoctorNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	dir := prepared(t)
	u := &terminal{t: t}
	whole := u.examineIn(copied(t, dir), anyPort, "--offline")
	if whole.wants(t, found{Level: "ok", Check: "databases", Object: "signalbox.db"}); whole.Running || len(whole.Findings) < 15 {
		t.Errorf("nothing is broken: %s", whole.out)
	}
	t.Run("owner", func(t *testing.T) { t.Parallel(); namesTheOwner(t, copied(t, dir)) })
	t.Run("fix", func(t *testing.T) { t.Parallel(); fixes(t, copied(t, dir)) })
	for _, b := range slices.Concat(brokenFiles, brokenSettings, brokenCertificates(t), brokenPorts(t)) {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			u, dir := &terminal{t: t}, copied(t, dir)
			args, config := []string{"--offline"}, b.config
			if b.do != nil {
				b.do(t, dir)
			}
			if config == "" {
				config = anyPort
			}
			if b.want.Check == "cluster" {
				args = nil
			}
			if b.want.Check == "directory" {
				b.want.Object = dir
			}
			e := u.examineIn(dir, config, args...)
			if b.want.Check == "configuration" {
				b.want.Object = e.Findings[0].Object
			}
			e.wants(t, b.want, b.also...)
		})
	}
}

// brokenPorts are ports that another process holds.
func brokenPorts(t *testing.T) []broken {
	held := suite.Listen(t, func(net.Conn) {})
	return []broken{
		{"port of the API in use", nil, fmt.Sprintf("http: {listen: '%s'}\n", held) + anyMQTT, found{Level: "error", Check: "ports", Text: "http.listen"}, nil},
		{"port of MQTT in use", nil, fmt.Sprintf("http: {listen: '127.0.0.1:0'}\nbroker: {listen: '%s', max_connections: 100}\n", held), found{Level: "error", Check: "ports", Text: "broker.listen"}, nil},
	}
}

// clusterOf makes the broker a node of a cluster whose other node has a port.
func clusterOf(port int) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		s, err := raftlog.Open(t.Context(), filepath.Join(dir, "cluster"), slog.New(slog.DiscardHandler))
		must(t, err)
		text := fmt.Sprintf(`{"uuid":"u","self":{"nodeid":1,"address":"127.0.0.1","port":2},"known":[{"nodeid":1,"address":"127.0.0.1","port":2},{"nodeid":2,"address":"127.0.0.1","port":%d}]}`, port)
		must(t, s.Update(raftlog.Changes{"cluster/identity": []byte(text)}), s.Close())
	}
}

// namesTheOwner finds a file that was copied by another user, which only root can make.
func namesTheOwner(t *testing.T, dir string) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	must(t, os.Chown(filepath.Join(dir, "streams.db"), 65534, -1))
	(&terminal{t: t}).examineIn(dir, anyPort, "--offline").wants(t, found{Level: "error", Check: "owner", Object: "streams.db", Text: "belongs to user 65534"})
}

// fixes corrects modes and deletes what was left, and nothing else.
func fixes(t *testing.T, dir string) {
	u := &terminal{t: t}
	must(t, os.Chmod(filepath.Join(dir, "secret.key"), 0o640), os.Chmod(dir, 0o755))
	content("http.address", "127.0.0.1:1")(t, dir)
	content("initial-credentials", "x")(t, dir)
	must(t, os.Remove(filepath.Join(dir, "broker.db")))
	e := u.examineIn(dir, anyPort, "--offline", "--fix")
	e.wants(t, found{Level: "ok", Check: "files", Object: "secret.key", Text: "fixed"}, "secrets", "identity", "files")
	after := u.examineIn(dir, anyPort, "--offline", "--strict")
	after.wants(t, found{Level: "error", Check: "identity"}, "files")
	if info, err := os.Stat(filepath.Join(dir, "secret.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the mode was not corrected: %v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "http.address")); err == nil {
		t.Error("the file that was left still exists")
	}
	if _, err := os.Stat(filepath.Join(dir, "initial-credentials")); err != nil {
		t.Error("the passwords were deleted")
	}
}

// soon is when the certificates of a test end.
func soon(days int) time.Time { return time.Now().Add(time.Duration(days)*24*time.Hour + time.Hour) }
