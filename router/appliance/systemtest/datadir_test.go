package systemtest

import (
	"database/sql"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/handlers"
	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// databases are those of a service whose broker is not in a cluster, without the metric
// history, which may be lost.
var databases = []string{"signalbox.db", "broker.db", "streams.db", "bridges.db"}

// TestMissingDatabaseIsRefused deletes or truncates one database of a data directory:
// the start names it and the remedy, and creates nothing.
func TestMissingDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range databases {
		for what, take := range map[string]func(path string) error{
			"deleted": os.Remove, "emptied": func(path string) error { return os.Truncate(path, 0) },
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				dir := used(t)
				if err := take(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				wantRefusal(t, dir, configured(nil), name, dir, "put it back", "signalbox data forget "+name)
				export := filepath.Join(t.TempDir(), "out.json")
				if got := command(t, configured(nil).environ(dir), "export", "dynsec", export); name == "broker.db" {
					wantRefused(t, got, name, "put it back")
				}
			})
		}
	}
}

// TestForgottenDatabaseIsCreatedAnew continues without a lost database, after "data
// forget".
func TestForgottenDatabaseIsCreatedAnew(t *testing.T) {
	t.Parallel()
	dir, env := dataDir(t), configured(nil)
	p := serve(t, dir, env)
	root(t, p).sensor(t, "pump-7", "secret")
	p.stop(t)
	wantRefused(t, command(t, env.environ(dir), "data", "forget", "broker.db"), "broker.db", "move it away")
	if err := os.Rename(filepath.Join(dir, "broker.db"), filepath.Join(t.TempDir(), "broker.db")); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, command(t, env.environ(dir), "data", "forget", "other.db"), "other.db")
	if got := command(t, env.environ(dir), "data", "forget", "broker.db"); got.code != 0 {
		t.Fatalf("forget: %+v", got)
	}
	again := serve(t, dir, env)
	if got := root(t, again).names(t, "clients"); !slices.Equal(got, []string{mqttAdmin}) {
		t.Errorf("clients %q, want those of a new broker", got)
	}
	again.stop(t)
	serve(t, dir, env).stop(t)
}

// TestNodeThatLostItsDataBeginsAnew deletes the data of a cluster's node, as the manual
// describes, and runs "data forget".
func TestNodeThatLostItsDataBeginsAnew(t *testing.T) {
	t.Parallel()
	dir, s := dataDir(t), configured(settings{"CLUSTER_LISTEN": "127.0.0.1:0"})
	serve(t, dir, s).stop(t)
	broker, cluster := filepath.Join(dir, "broker.db"), filepath.Join(dir, "cluster")
	for _, path := range []string{broker, cluster} {
		aside := path + ".aside"
		if err := os.Rename(path, aside); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, command(t, s.environ(dir), "data", "forget", "broker.db", "cluster/cluster.db"), "move it away")
		if path == broker {
			wantRefused(t, command(t, s.environ(dir), "data", "forget", "broker.db"), "cluster/cluster.db", "forget both")
		} else {
			wantRefused(t, command(t, s.environ(dir), "data", "forget", "cluster/cluster.db"), "broker.db", "forget both")
		}
		if err := os.Rename(aside, path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(broker); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(cluster); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, dir, s, "broker.db and cluster/cluster.db are missing", "signalbox data forget broker.db cluster/cluster.db")
	if got := command(t, s.environ(dir), "data", "forget", "broker.db", "cluster/cluster.db"); got.code != 0 {
		t.Fatalf("forget: %+v", got)
	}
	serve(t, dir, s).stop(t)
}

// TestDatabaseOfAnotherDirectoryIsRefused copies a database of another service.
func TestDatabaseOfAnotherDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	other := used(t)
	for _, name := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := used(t)
			write(t, filepath.Join(dir, name), read(t, filepath.Join(other, name)))
			wantRefusal(t, dir, configured(nil), name, "another data directory", "signalbox data adopt "+name)
			if got := command(t, configured(nil).environ(dir), "data", "adopt", name); got.code != 0 {
				t.Fatalf("adopt: %+v", got)
			}
			if name != "signalbox.db" { // whose administrator's password differs
				serve(t, dir, configured(nil)).stop(t)
			}
		})
	}
	t.Run("another file's name", func(t *testing.T) {
		t.Parallel()
		dir := used(t)
		write(t, filepath.Join(dir, "broker.db"), read(t, filepath.Join(dir, "streams.db")))
		wantRefusal(t, dir, configured(nil), "broker.db", "streams.db")
		wantRefused(t, command(t, configured(nil).environ(dir), "data", "adopt", "broker.db"), "streams.db")
	})
}

// TestOlderDirectoryIsAdopted starts on a directory without an identity, as from an
// earlier release.
func TestOlderDirectoryIsAdopted(t *testing.T) {
	t.Parallel()
	older := func(t *testing.T) string {
		dir := used(t)
		removeIdentity(t, dir)
		return dir
	}
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		dir := older(t)
		serve(t, dir, configured(nil)).stop(t)
		if err := os.Remove(filepath.Join(dir, "broker.db")); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, dir, configured(nil), "broker.db", "put it back")
	})
	for _, name := range []string{"signalbox.db", "broker.db"} {
		t.Run("without "+name, func(t *testing.T) {
			t.Parallel()
			dir := older(t)
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			wantRefusal(t, dir, configured(nil), name, "put it back")
		})
	}
	t.Run("databases restored without the identity's file", func(t *testing.T) {
		t.Parallel()
		dir := used(t)
		if err := os.Remove(filepath.Join(dir, "identity")); err != nil {
			t.Fatal(err)
		}
		serve(t, dir, configured(nil)).stop(t)
	})
}

// removeIdentity turns a directory into one of a release without identities.
func removeIdentity(t *testing.T, dir string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, "identity")); err != nil {
		t.Fatal(err)
	}
	for _, name := range databases {
		execute(t, filepath.Join(dir, name), `DROP TABLE data_directory`)
	}
}

// TestDatabaseLostWhileRunning deletes or replaces a file of a running service, which
// must end and report it.
func TestDatabaseLostWhileRunning(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(t *testing.T, path string){
		"deleted": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func(t *testing.T, path string) {
			write(t, path+".new", read(t, path))
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, name := range append(databases, "signalbox.lock", "broker.db-wal") {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				p := serve(t, dataDir(t), configured(nil))
				lose(t, filepath.Join(p.dir, name))
				suite.WaitFor(t, "the service has ended", p.Ended)
				if said := p.Stderr.String(); p.ExitCode() != 1 || !strings.Contains(said, "signalbox: ") || !strings.Contains(said, filepath.Join(p.dir, name)) || !strings.Contains(said, what) {
					t.Errorf("exit code %d: %s", p.ExitCode(), lastLines(said))
				}
			})
		}
	}
}

// TestDamageIsFound overwrites 2 KiB of a database before the start. If the start reads
// them it is refused; if not, the log names the file and /readyz reports it.
func TestDamageIsFound(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	p := serve(t, dir, configured(nil))
	r := root(t, p)
	for _, name := range []string{"a", "b", "c", "d"} {
		r.must(t, "POST", r.at("/clients"), object{"username": name, "textdescription": strings.Repeat(name, 30_000)}, nil)
	}
	p.stop(t)
	path := filepath.Join(dir, "broker.db")
	whole := read(t, path)
	overwrite(t, path, "access_roles")
	wantRefusal(t, dir, configured(nil), path+" is damaged", "put back a copy", "keep the damaged file")
	write(t, path, whole)
	overwrite(t, path, "access_client_roles_by_role")
	again := launch(t, dir, configured(nil))
	wantDamageLogged(t, again, path)
}

// TestDamageWhileRunning overwrites a page of a running service.
func TestDamageWhileRunning(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	serve(t, dir, configured(nil)).stop(t)
	p := serve(t, dir, configured(settings{"DATA_CHECK_INTERVAL": "1s"}))
	path := filepath.Join(dir, "broker.db")
	overwrite(t, path, "ban")
	wantDamageLogged(t, p, path)
}

func wantDamageLogged(t *testing.T, p *service, path string) {
	t.Helper()
	p.awaitReady(t)
	r := root(t, p)
	suite.WaitFor(t, "the service is not ready", func() bool { return r.status(t, "GET", "/readyz", nil) == http.StatusServiceUnavailable })
	if _, answer, err := r.do(t.Context(), "GET", "/readyz", nil); err != nil || !strings.Contains(string(answer), filepath.Base(path)) || !strings.Contains(string(answer), "damaged") {
		t.Errorf("/readyz: %s, %v", answer, err)
	}
	var system handlers.SystemRecord
	r.must(t, "GET", "/api/system", nil, &system)
	for _, part := range system.Parts {
		if isFiles := part.Name == "files"; part.Ready == isFiles || isFiles && !strings.Contains(part.Problem, filepath.Base(path)) {
			t.Errorf("part %+v", part)
		}
	}
	suite.WaitFor(t, "the log names the file", func() bool {
		return strings.Contains(p.Stderr.String(), path+" is damaged") && strings.Contains(p.Stderr.String(), "level=ERROR")
	})
	p.Kill()
}

// rootPage returns the page at which a table begins.
func rootPage(t *testing.T, path, table string) (page int) {
	t.Helper()
	d, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.QueryRowContext(t.Context(), `SELECT rootpage FROM sqlite_schema WHERE name = ?`, table).Scan(&page); err != nil {
		t.Fatal(err)
	}
	return page
}

// execute runs a statement on a database that no process has open.
func execute(t *testing.T, path, statement string) {
	t.Helper()
	d, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// overwrite writes 2 KiB of noise over the root page of a table.
func overwrite(t *testing.T, path, table string) {
	t.Helper()
	page := int64(rootPage(t, path, table))
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(strings.Repeat("noise---", 256)), (page-1)*4096); err != nil {
		t.Fatal(err)
	}
}

// TestStartOnAFullDisk starts on a full disk: the start reports that, whichever file is
// affected first, and the data are intact when there is space again.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	script := `mount -t tmpfs -o size=8m,mode=0700 none "$1"
cp -a "$2"/. "$1"
cat /dev/zero >"$1/filler" 2>/dev/null
"$0" serve; echo "code $?"
rm "$1/filler"
exec "$0" export dynsec "$1/out"`
	dir, mount := used(t), t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", script, process.Program, mount, dir)
	cmd.Env, cmd.SysProcAttr = configured(nil).environ(mount), ownMounts()
	if err := exec.Command("unshare", "-rm", "true").Run(); err != nil && os.Geteuid() != 0 {
		t.Skip("this user may not mount, so there is no full disk")
	}
	got := finish(t, cmd)
	said := withoutDebug(got.stderr)
	if !strings.Contains(got.stdout, "code 1") || !strings.Contains(said, "is full") || !strings.Contains(said, "free some space") || strings.Contains(said, "move it away") {
		t.Errorf("on a full disk: %+v", got)
	}
	if got.code != 0 || !strings.Contains(got.stdout, "wrote") {
		t.Errorf("with room again: %+v", got)
	}
}
