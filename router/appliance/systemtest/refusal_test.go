package systemtest

import (
	"database/sql"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // opens the databases as another release would

	"signalbox/broker/brokertest"
	"signalbox/scripts/process"
)

// wantRefusal runs "serve", which must end with exit code 1 and one sentence that
// contains all the hints, and change nothing.
func wantRefusal(t *testing.T, dir string, s settings, hints ...string) {
	t.Helper()
	cmd := prepare(s.environ(dir), "serve")
	before := stored(t, dir)
	wantRefused(t, finish(t, cmd), hints...)
	if diff := cmp.Diff(before, stored(t, dir)); diff != "" {
		t.Errorf("the data directory was changed (-before +after):\n%s", diff)
	}
}

// wantRefused checks that a command has ended with exit code 1 and one sentence.
func wantRefused(t *testing.T, got outcome, hints ...string) {
	t.Helper()
	wantExit(t, 1, got, hints...)
}

// wantExit checks a command that was refused with an exit code.
func wantExit(t *testing.T, code int, got outcome, hints ...string) {
	t.Helper()
	if got.code != code || got.stdout != "" {
		t.Errorf("got exit code %d and output %q, want %d and none", got.code, got.stdout, code)
	}
	said := withoutDebug(got.stderr)
	if strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, "signalbox: ") {
		t.Errorf("want one sentence, got:\n%s", said)
	}
	for _, hint := range hints {
		if !strings.Contains(said, hint) {
			t.Errorf("%q is not in: %s", hint, said)
		}
	}
}

// withoutDebug removes the lines of the log at levels that are disabled by default.
func withoutDebug(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "level=DEBUG") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// used returns a data directory that a service has used.
func used(t *testing.T) string {
	t.Helper()
	dir := dataDir(t)
	serve(t, dir, configured(nil)).stop(t)
	return dir
}

// taken returns an address at which a program listens.
func taken(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestPortInUseIsRefused(t *testing.T) {
	t.Parallel()
	busy := taken(t)
	for _, name := range []string{"HTTP_LISTEN", "BROKER_LISTEN"} {
		key := strings.ToLower(strings.ReplaceAll(name, "_", "."))
		s := configured(settings{name: busy})
		fresh := dataDir(t)
		wantRefusal(t, fresh, s, key, busy, "configure another address")
		if _, err := os.Lstat(fresh); !os.IsNotExist(err) {
			t.Errorf("%s in use: a data directory was made", key)
		}
		wantRefusal(t, used(t), s, key, busy)
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, configured(nil))
	wantRefused(t, command(t, configured(nil).environ(dir), "serve"), "data_dir", dir, "another signalbox is running", "stop it")
	if got := root(t, p).status(t, "GET", "/readyz", nil); got != 200 {
		t.Errorf("the first process answers %d, want 200", got)
	}
}

// TestUnwritableDataIsRefused runs as a user who may read and not write; root may do
// both, so the program then runs as another user.
func TestUnwritableDataIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	wantRefusal(t, filepath.Join(file, "data"), nil, "data_dir", "not a directory", "configure another directory")

	t.Run("missing, in a directory of another user", func(t *testing.T) {
		wantRefusedAsOther(t, filepath.Join(readOnly(t, t.TempDir()), "data"), "data_dir", "permission denied", "make it writable")
	})
	t.Run("directory of another user", func(t *testing.T) {
		wantRefusedAsOther(t, readOnly(t, t.TempDir()), "data_dir", "permission denied", "make it writable")
	})
	for _, name := range []string{"signalbox.db", "broker.db", "streams.db", "bridges.db"} {
		t.Run(name+" of another user", func(t *testing.T) {
			dir := used(t)
			giveAway(t, dir)
			if err := os.Chmod(filepath.Join(dir, name), 0o444); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(filepath.Join(dir, name), os.Geteuid(), -1); err != nil {
				t.Fatal(err)
			}
			wantRefusedAsOther(t, dir, name)
		})
	}
}

// unprivileged is the id of a user without rights.
const unprivileged = 65534

// readOnly makes a directory read-only for all users.
func readOnly(t *testing.T, dir string) string {
	t.Helper()
	open(t, dir)
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	return dir
}

// open lets other users enter the directories of a test.
func open(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// giveAway makes that user the owner of a data directory, if the test may.
func giveAway(t *testing.T, dir string) {
	t.Helper()
	open(t, dir)
	if os.Geteuid() != 0 {
		return
	}
	for path := range snapshot(t, dir) {
		if err := os.Chown(path, unprivileged, unprivileged); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(filepath.Join(dir, "signalbox.lock"), unprivileged, unprivileged); err != nil {
		t.Fatal(err)
	}
}

func wantRefusedAsOther(t *testing.T, dir string, hints ...string) {
	t.Helper()
	cmd := prepare(configured(nil).environ(dir), "serve")
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	before := stored(t, dir)
	wantRefused(t, finish(t, cmd), hints...)
	if diff := cmp.Diff(before, stored(t, dir)); diff != "" {
		t.Errorf("the data directory was changed (-before +after):\n%s", diff)
	}
}

// TestNewerDatabaseIsRefused pretends that a later release has written a file.
func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"signalbox.db", "broker.db", "streams.db", "bridges.db"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := used(t)
			raiseSchema(t, filepath.Join(dir, name))
			wantRefusal(t, dir, configured(nil), name, "999", "newer")
		})
	}
	t.Run("broker.db alone", func(t *testing.T) {
		t.Parallel()
		dir := used(t)
		raiseSchema(t, filepath.Join(dir, "broker.db"))
		for _, name := range []string{"signalbox.db", "secret.key"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		wantRefusal(t, dir, nil, "broker.db", "999", "newer")
	})
}

// raiseSchema records a migration that this release does not have.
func raiseSchema(t *testing.T, path string) {
	t.Helper()
	d, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, 1)`)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestForeignFileIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"signalbox.db", "broker.db", "bridges.db"} {
		dir := used(t)
		write(t, filepath.Join(dir, name), strings.Repeat("this is no database\n", 100))
		wantRefusal(t, dir, configured(nil), name)
	}
}

func TestKeyFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, configured(nil))
	r := root(t, p)
	r.must(t, "POST", "/api/projects/"+r.project+"/brokers",
		object{"name": "plant", "url": "mqtt://127.0.0.1:1", "username": "u", "password": "sealed with the key"}, nil)
	p.stop(t)
	if got := holders(t, dir, "sealed with the key"); len(got) != 0 {
		t.Errorf("the password of a connection is readable in %v", got)
	}
	key := filepath.Join(dir, "secret.key")
	kept := read(t, key)

	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, dir, configured(nil), "secret.key", "0644", "chmod 600")
	write(t, key, "too short")
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, dir, configured(nil), "secret.key")
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, dir, configured(nil), "secret.key", "is missing", "put the file back")
	write(t, key, kept)
	serve(t, dir, configured(nil)).stop(t)
}

// TestBadCertificateIsRefused starts with configured files that do not exist: nothing
// is changed, so that the first start, with its passwords, is still to come.
func TestBadCertificateIsRefused(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.pem")
	wantRefusal(t, dataDir(t), settings{"HTTP_TLS_CERT_FILE": missing, "HTTP_TLS_KEY_FILE": missing}, "http.tls", missing)

	pair := brokertest.NewCA(t).Issue(t, brokertest.CertOptions{Subject: "localhost", Names: []string{"127.0.0.1"}})
	config := filepath.Join(t.TempDir(), "config.yaml")
	cert := filepath.Join(filepath.Dir(config), "cert.pem")
	write(t, cert, string(pair.Cert))
	write(t, config, "broker:\n  listeners:\n  - {protocol: mqtts, address: '127.0.0.1:0', cert_file: '"+cert+"', key_file: '"+missing+"'}\n")
	dir := dataDir(t)
	cmd := exec.Command(process.Program, "serve", "--config", config)
	cmd.Env = settings(nil).environ(dir)
	wantRefused(t, finish(t, cmd), "broker.listeners[0]", missing)
	if got := snapshot(t, dir); len(got) != 0 {
		t.Errorf("the data directory was made: %v", got)
	}
}
