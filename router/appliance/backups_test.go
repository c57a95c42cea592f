package appliance

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"

	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/router/appliance/backup"
	"signalbox/scripts/suite"
)

// scheduled returns the backups of a service that has run, by a clock that the test moves.
func scheduled(t *testing.T, change func(*Config)) (*backups, *clocktest.Machine) {
	t.Helper()
	c := DefaultConfig()
	dir := t.TempDir()
	c.DataDir, c.Backup.Directory = filepath.Join(dir, "data"), filepath.Join(dir, "backups")
	change(&c)
	if err := errors.Join(c.Validate(), os.CopyFS(c.DataDir, os.DirFS(stoppedDir(t)))); err != nil {
		t.Fatal(err)
	}
	m := clocktest.New()
	now := clock.New(m.Sources(), slog.New(slog.DiscardHandler))
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	return newBackups(c, "test", func() time.Time { return now.Wall(now.Now()) }, log), m
}

// stopped is the data directory of a service that has run, which tests copy.
var stopped struct {
	once sync.Once
	dir  string
}

func TestMain(m *testing.M) { suite.Main(m, func() error { return os.RemoveAll(stopped.dir) }) }

func stoppedDir(t *testing.T) string {
	t.Helper()
	stopped.once.Do(func() {
		c := DefaultConfig()
		c.HTTP.Listen, c.Broker.Listen = "127.0.0.1:0", "127.0.0.1:0"
		dir, err := os.MkdirTemp("", "signalbox-stopped-")
		if err != nil {
			t.Fatal(err)
		}
		stopped.dir, c.DataDir = dir, dir
		a, err := Start(t.Context(), c, Program{Version: "test"}, slog.New(slog.DiscardHandler))
		if err == nil {
			err = a.Stop()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return stopped.dir
}

// names returns what the directory has, without its lock.
func (b *backups) names(t *testing.T) (all []string) {
	t.Helper()
	files, err := os.ReadDir(b.directory.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), ".") {
			all = append(all, f.Name())
		}
	}
	return all
}

// TestSchedule has five days pass: there is one backup each day, the oldest are removed, and
// nothing else is.
func TestSchedule(t *testing.T) {
	t.Parallel()
	b, m := scheduled(t, func(c *Config) { c.Backup.Schedule, c.Backup.Keep = "daily 03:00", "3d" })
	b.look()
	if got := b.names(t); len(got) != 2 {
		t.Fatalf("after the start: %q", got)
	}
	foreign := []string{"notes.txt", "signalbox-20200101T000000.000Z.backup", "signalbox-20200101T000000.000Z.backup.orig", "signalbox-1.backup"}
	for _, name := range foreign {
		if err := os.WriteFile(filepath.Join(b.directory.Path, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	other := b.directory
	other.DataDir = otherDirectory(t)
	theirs, err := other.Create(t.Context(), backup.Options{Version: "test", Now: func() time.Time { return b.now().AddDate(0, 0, -3) }}, verifyIn)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 * 24 {
		m.Pass(time.Hour)
		b.look()
	}
	all, err := b.directory.List()
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, e := range all {
		if e.State == backup.Verified && e.Name != theirs.Name {
			own = append(own, e.Time.In(b.now().Location()).Format("02 15:04"))
		}
	}
	if strings.Join(own, ", ") != "27 03:00, 26 03:00, 25 03:00" {
		t.Errorf("backups of %q", own)
	}
	for _, name := range append(foreign, theirs.Name) {
		if !slices.Contains(b.names(t), name) {
			t.Errorf("%s was removed", name)
		}
	}
	if len(b.names(t)) != 2*3+2+len(foreign) {
		t.Errorf("files: %q", b.names(t))
	}
}

// TestBackupsOutsideOfTheData refuses a directory that a restore would move away.
func TestBackupsOutsideOfTheData(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	for path, valid := range map[string]bool{"data": false, "./data/backups": false, "data/../backups": true, "data.backups": true, "/srv/backups": true} {
		if c.Backup.Directory = path; (c.Validate() == nil) != valid {
			t.Errorf("%s: valid %v", path, !valid)
		}
	}
}

// otherDirectory returns the data directory of another service.
func otherDirectory(t *testing.T) string {
	t.Helper()
	b, _ := scheduled(t, func(*Config) {})
	identity := filepath.Join(b.directory.DataDir, "identity")
	text, err := os.ReadFile(identity)
	if err == nil {
		err = os.WriteFile(identity, []byte(strings.Replace(string(text), `"id": "`, `"id": "x`, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.directory.DataDir
}

// TestScheduleAfterFailures lets a backup fail: it is counted, tried again after a while, and
// nothing is removed before there is a newer one.
func TestScheduleAfterFailures(t *testing.T) {
	t.Parallel()
	b, m := scheduled(t, func(c *Config) { c.Backup.Schedule, c.Backup.Keep = "24h", "1d" })
	b.look()
	first := b.names(t)
	identity := filepath.Join(b.directory.DataDir, "identity")
	if err := os.Rename(identity, identity+".away"); err != nil {
		t.Fatal(err)
	}
	m.Pass(24 * time.Hour)
	for range 3 {
		b.look()
		m.Pass(backupRetryInterval / 2)
	}
	if b.failures != 2 || !slices.Equal(b.names(t), first) {
		t.Errorf("%d failures, files %q", b.failures, b.names(t))
	}
	if left, _ := filepath.Glob(filepath.Join(b.directory.Path, ".signalbox-work*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	if err := os.Rename(identity+".away", identity); err != nil {
		t.Fatal(err)
	}
	m.Pass(backupRetryInterval)
	b.look()
	if got := b.names(t); len(got) != 2 || got[0] == first[0] {
		t.Errorf("files %q after %q", got, first)
	}
	if removed, err := b.directory.Prune(b.keep, false); err != nil || len(removed) > 0 {
		t.Errorf("the last one: removed %v, %v", removed, err)
	}
}

// TestBackupsForRecipients encrypts for a public key: the service verifies what it has written
// without the private key, and only that opens it later. A changed byte is found.
func TestBackupsForRecipients(t *testing.T) {
	t.Parallel()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := scheduled(t, func(c *Config) { c.Backup.Recipients, c.Backup.WithKey = []string{identity.Recipient().String()}, true })
	if err := os.WriteFile(filepath.Join(b.directory.DataDir, keyFile), []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	task, err := b.begin("", stateCreating)
	if err != nil {
		t.Fatal(err)
	}
	b.create(task)
	e := task.entry
	if task.err != nil || !e.Encrypted || !e.WithKey || e.State != backup.Verified {
		t.Fatalf("%+v, %v", e, task.err)
	}
	file := filepath.Join(b.directory.Path, e.Name)
	if _, err := VerifyBackup(t.Context(), file, backup.Identities{}); err == nil {
		t.Error("it can be read without a key")
	}
	secret := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(secret, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	with, err := backup.ReadIdentities(secret)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := VerifyBackup(t.Context(), file, with); err != nil || !m.Has(backup.KeyName) {
		t.Errorf("with the private key: %+v, %v", m, err)
	}
	if again, err := b.directory.Verify(t.Context(), e.Name, verifyIn); err != nil || again.State != backup.Verified {
		t.Errorf("verified again: %+v, %v", again, err)
	}
	flip(t, file)
	if again, err := b.directory.Verify(t.Context(), e.Name, verifyIn); err != nil || again.State != backup.Damaged {
		t.Errorf("a changed byte: %+v, %v", again, err)
	}
}

// flip changes a byte in the middle of a file.
func flip(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestBackupOfANewerRelease is refused before anything in it is counted.
func TestBackupOfANewerRelease(t *testing.T) {
	t.Parallel()
	b, _ := scheduled(t, func(*Config) {})
	path := filepath.Join(b.directory.DataDir, brokerFile)
	d, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = d.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`)
	}
	file := filepath.Join(t.TempDir(), "newer")
	if err = errors.Join(err, d.Close()); err == nil {
		_, err = backup.Create(t.Context(), b.directory.DataDir, file, backup.Options{Version: "99.0"})
	}
	if err != nil {
		t.Fatal(err)
	}
	const want = "the backup was written by a newer release (version 99.0)"
	if _, err := VerifyBackup(t.Context(), file, backup.Identities{}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("verify: %v", err)
	}
	c := Config{DataDir: b.directory.DataDir}
	before := b.directory.DataDir
	if _, err := Restore(t.Context(), c, file, backup.Identities{}, RestoreOptions{}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("restore: %v", err)
	}
	if left, _ := filepath.Glob(before + ".*"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestOneBackupAtATime starts a second one while the first is verified.
func TestOneBackupAtATime(t *testing.T) {
	t.Parallel()
	b, _ := scheduled(t, func(*Config) {})
	var second error
	_, err := b.directory.Create(t.Context(), b.options, func(ctx context.Context, parent, file string, with backup.Identities) (*backup.Manifest, error) {
		_, second = b.directory.Create(ctx, b.options, verifyIn)
		return verifyIn(ctx, parent, file, with)
	})
	if err != nil || !errors.Is(second, backup.ErrBusy) {
		t.Errorf("first: %v, second: %v", err, second)
	}
	for _, name := range []string{"../data/signalbox.db", "..", "", "signalbox-20200101T000000.000Z.backup/../../data/identity"} {
		if _, _, err := b.directory.Open(name); !errors.Is(err, backup.ErrNoBackup) {
			t.Errorf("open %q: %v", name, err)
		}
		if err := b.directory.Remove(name); !errors.Is(err, backup.ErrNoBackup) {
			t.Errorf("remove %q: %v", name, err)
		}
	}
}
