package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killPlaces is at how many places of its run a command is killed.
const killPlaces = 20

// killedAfter runs a command and kills it after a part of the time that it takes. It reports
// whether it was killed before its end.
func killedAfter(t *testing.T, cmd *exec.Cmd, d time.Duration) bool {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(d, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	defer kill.Stop()
	return cmd.Wait() != nil
}

// TestCampaignBackupIsKilled kills "backup create" at 20 places: what is listed is verified, the
// next backup succeeds, and nothing else is left.
func TestCampaignBackupIsKilled(t *testing.T) {
	dir := used(t)
	backups := filepath.Join(t.TempDir(), "backups")
	env := configured(settings{"BACKUP_DIRECTORY": backups}).environ(dir)
	began := time.Now()
	if got := command(t, env, "backup", "create"); got.code != 0 {
		t.Fatalf("create: %+v", got)
	}
	whole, killed, made := time.Since(began), 0, 1
	for place := range killPlaces {
		if killedAfter(t, prepare(env, "backup", "create"), whole*time.Duration(place)/killPlaces) {
			killed++
		}
		got := command(t, env, "backup", "create")
		if got.code != 0 {
			t.Fatalf("place %d: the next one: %+v", place, got)
		}
		list := command(t, env, "backup", "list")
		lines := strings.Split(strings.TrimSpace(list.stdout), "\n")[1:]
		if list.code != 0 || strings.Count(list.stdout, " verified ") != len(lines) || len(lines) <= made {
			t.Fatalf("place %d: %+v, %d before", place, list, made)
		}
		made = len(lines)
		wantOnlyBackups(t, backups, made)
	}
	t.Logf("killed %d of %d times before the end, of %v", killed, killPlaces, whole)
}

// wantOnlyBackups checks that a directory has backups with their records, and its lock.
func wantOnlyBackups(t *testing.T, dir string, n int) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2*n+1 {
		t.Errorf("%d backups, files %v", n, files)
	}
	for _, f := range files {
		if f.IsDir() {
			t.Errorf("left %s", f.Name())
		}
	}
}

// TestCampaignRestoreIsKilled kills "restore" at 20 places: the data directory has the previous
// or the restored data, or does not exist, and then a command names the directory to rename.
// The next restore succeeds and removes what was left.
func TestCampaignRestoreIsKilled(t *testing.T) {
	dir, env := dataDir(t), configured(nil)
	p := serve(t, dir, env)
	file := filepath.Join(t.TempDir(), "backup")
	if got := command(t, env.environ(dir), "backup", "create", file); got.code != 0 {
		t.Fatalf("create: %+v", got)
	}
	root(t, p).sensor(t, "later", "secret")
	p.stop(t)
	present := filepath.Join(t.TempDir(), "present")
	if err := os.CopyFS(present, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	later := func(dir string) bool {
		got := command(t, env.environ(dir), "export", "dynsec", "-")
		if got.code != 0 {
			t.Fatalf("the data directory does not work: %+v", got)
		}
		return strings.Contains(got.stdout, `"later"`)
	}
	if !later(dir) {
		t.Fatal("the present data lacks the later client")
	}
	began := time.Now()
	if got := command(t, env.environ(dir), "restore", file); got.code != 0 || later(dir) {
		t.Fatalf("restore: %+v", got)
	}
	whole, outcomes := time.Since(began), map[string]int{}
	for place := range killPlaces {
		removeAll(t, dir+"*")
		if err := os.CopyFS(dir, os.DirFS(present)); err != nil {
			t.Fatal(err)
		}
		killedAfter(t, prepare(env.environ(dir), "restore", file), whole*time.Duration(place)/killPlaces)
		outcomes[afterKill(t, env, dir, later)]++
		if got := command(t, env.environ(dir), "restore", file); got.code != 0 || later(dir) {
			t.Fatalf("place %d: the next restore: %+v", place, got)
		}
		if left, _ := filepath.Glob(dir + ".restore-partial-*"); len(left) > 0 {
			t.Errorf("place %d: left %q", place, left)
		}
	}
	t.Logf("killed within %v: %v", whole, outcomes)
}

// afterKill returns which data a killed restore has left, and completes one that was interrupted
// between its renames, as its message demands.
func afterKill(t *testing.T, env settings, dir string, later func(string) bool) string {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		wantRefused(t, command(t, env.environ(dir), "export", "dynsec", "-"), "a restore was interrupted")
		restored, err := filepath.Glob(dir + ".restored-*")
		if err != nil || len(restored) != 1 {
			t.Fatalf("neither the previous nor the restored data: %q, %v", restored, err)
		}
		if err := os.Rename(restored[0], dir); err != nil {
			t.Fatal(err)
		}
		later(dir)
		return "between"
	}
	if later(dir) {
		return "previous"
	}
	return "restored"
}

func removeAll(t *testing.T, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}
