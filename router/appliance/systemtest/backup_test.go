package systemtest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"signalbox/scripts/suite"
)

// TestBackupAndRestore changes a service after a backup, and restores: the objects of
// the backup are back, the later ones are not, and stored secrets still work.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir, env, file := dataDir(t), configured(nil), filepath.Join(t.TempDir(), "first.backup")
	p := serve(t, dir, env)
	r := root(t, p)
	r.sensor(t, "pump-7", "secret")
	if got := command(t, env.environ(dir), "backup", "create", file); got.code != 0 || mode(t, file) != 0o600 {
		t.Fatalf("create: %+v, mode %v", got, mode(t, file))
	}
	wantRefused(t, command(t, env.environ(dir), "backup", "create", file), "exists already")
	want := r.names(t, "clients")
	r.must(t, "POST", r.at("/clients"), object{"username": "later", "password": "secret"}, nil)
	wantRefused(t, command(t, env.environ(dir), "restore", file), "another signalbox is running")
	p.stop(t)
	if got := command(t, env.environ(dir), "restore", "--dry-run", file); got.code != 0 || !strings.Contains(got.stdout, "would restore") {
		t.Fatalf("dry run: %+v", got)
	}
	got := command(t, env.environ(dir), "restore", file)
	if got.code != 0 || !strings.Contains(got.stdout, "secret.key: that of the previous data is used") {
		t.Fatalf("restore: %+v", got)
	}
	again := serve(t, dir, env)
	if got := root(t, again).names(t, "clients"); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("clients %q, want %q", got, want)
	}
	again.stop(t)
	if previous, err := filepath.Glob(dir + ".before-restore-*"); err != nil || len(previous) != 1 {
		t.Errorf("previous data: %q, %v", previous, err)
	}
}

// TestScheduledBackup has a service that makes its first backup when it starts. The commands
// list it and others, and remove those that need not be kept, while the service runs.
func TestScheduledBackup(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	backups := filepath.Join(filepath.Dir(dir), "backups")
	env := configured(settings{"BACKUP_DIRECTORY": backups, "BACKUP_SCHEDULE": "daily 03:00"})
	p := serve(t, dir, env)
	suite.WaitFor(t, "the first backup", func() bool { return strings.Contains(p.Stderr.String(), "a backup was made and verified") })
	list := func() []string {
		got := command(t, env.environ(dir), "backup", "list")
		if got.code != 0 || strings.Contains(got.stdout, "unverified") {
			t.Errorf("list: %+v", got)
		}
		return strings.Split(strings.TrimSpace(got.stdout), "\n")[1:]
	}
	if got := command(t, env.environ(dir), "backup", "create"); got.code != 0 || len(list()) != 2 {
		t.Errorf("create: %+v, list %q", got, list())
	}
	if got := command(t, env.environ(dir), "backup", "create", "--with-key"); got.code != 2 || !strings.Contains(got.stderr, "backup.with_key") {
		t.Errorf("create --with-key: %+v", got)
	}
	if got := command(t, env.environ(dir), "backup", "prune", "--dry-run", "--keep", "1d"); got.code != 0 || !strings.HasPrefix(got.stdout, "would remove signalbox-") || len(list()) != 2 {
		t.Errorf("dry run: %+v", got)
	}
	if got := command(t, env.environ(dir), "backup", "prune", "--keep", "1d"); got.code != 0 || len(list()) != 1 {
		t.Errorf("prune: %+v, list %q", got, list())
	}
	p.stop(t)
}

// TestEncryptedBackup restores into an empty directory with the key, which only an
// encrypted backup may have.
func TestEncryptedBackup(t *testing.T) {
	t.Parallel()
	dir, env, temp := dataDir(t), configured(nil), t.TempDir()
	phrase, wrong, file, plain := filepath.Join(temp, "phrase"), filepath.Join(temp, "wrong"), filepath.Join(temp, "b"), filepath.Join(temp, "plain")
	write(t, phrase, "five words of a phrase\n")
	write(t, wrong, "another\n")
	serve(t, dir, env).stop(t)
	refused := command(t, env.environ(dir), "backup", "create", "--with-key", file)
	if refused.code != 2 || !strings.Contains(refused.stderr, "encrypted") {
		t.Errorf("with the key, unencrypted: %+v", refused)
	}
	config := filepath.Join(temp, "config.yaml")
	write(t, config, "admin:\n  password: sentinel-1 # sentinel-2\n")
	for _, args := range [][]string{{"--with-key", "--passphrase-file", phrase, file}, {"--config", config, plain}} {
		if got := command(t, env.environ(dir), append([]string{"backup", "create"}, args...)...); got.code != 0 {
			t.Fatalf("create %q: %+v", args, got)
		}
	}
	wantNoSentinel(t, plain)
	wantRefused(t, command(t, nil, "backup", "verify", file), "--passphrase-file")
	wantRefused(t, command(t, nil, "backup", "verify", "--passphrase-file", wrong, file), "another pass phrase")
	if got := command(t, nil, "backup", "verify", "--passphrase-file", phrase, file); got.code != 0 || !strings.Contains(got.stdout, "is intact") {
		t.Errorf("verify: %+v", got)
	}
	other := filepath.Join(t.TempDir(), "data")
	if got := command(t, env.environ(other), "restore", "--passphrase-file", phrase, file); got.code != 0 || strings.Contains(got.stdout, "secret.key") {
		t.Fatalf("restore: %+v", got)
	}
	if read(t, filepath.Join(other, "secret.key")) != read(t, filepath.Join(dir, "secret.key")) {
		t.Error("the key was not restored")
	}
	serve(t, other, env).stop(t)

	keyless := filepath.Join(t.TempDir(), "data")
	if got := command(t, env.environ(keyless), "restore", plain); got.code != 0 || !strings.Contains(got.stdout, "must be given again") {
		t.Fatalf("restore without key: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(keyless, "secret.key")); !os.IsNotExist(err) {
		t.Errorf("secret.key: %v", err)
	}
}

// wantNoSentinel checks that a backup that is not encrypted has the configuration without
// its secrets.
func wantNoSentinel(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	content, err := io.ReadAll(z)
	if err != nil || !bytes.Contains(content, []byte("password:")) || bytes.Contains(content, []byte("sentinel-")) {
		t.Errorf("%s: lacks the configuration or has its secrets (%d bytes, %v)", file, len(content), err)
	}
}
