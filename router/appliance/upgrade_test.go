package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"

	"signalbox/router/appliance/upgrade"
)

// program returns what the tests install, without a version.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "signalbox-test")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	path := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./testdata/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(path)
})

// release writes a program of a version with its signature.
func release(t *testing.T, path, version string, key minisign.PrivateKey) {
	t.Helper()
	text, err := program()
	if err != nil {
		t.Fatal(err)
	}
	tail := fmt.Sprintf("\nsignalbox %s (commit abc, 2026-01-01T00:00:00Z)", version)
	text = append(append(slices.Clone(text), make([]byte, 200-len(tail))...), tail...)
	if err := errors.Join(os.WriteFile(path, text, 0o700), os.WriteFile(path+".minisig", minisign.Sign(key, text), 0o600)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
}

// site is an installation of version v1.0.0, and releases to upgrade it to.
type site struct {
	c       Config
	options UpgradeOptions
	folder  string // of the releases
	mark    string // a file in the data directory that no backup has
}

func newSite(t *testing.T, versions ...string) *site {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{c: DefaultConfig(), folder: t.TempDir()}
	s.c.DataDir = filepath.Join(t.TempDir(), "data")
	s.c.HTTP.Listen, s.c.Broker.Listen = "127.0.0.1:0", "127.0.0.1:0"
	s.options = UpgradeOptions{Program: filepath.Join(t.TempDir(), "signalbox"), Version: "v1.0.0", Keys: upgrade.Keys{Release: public.String()}}
	release(t, s.options.Program, "v1.0.0", private)
	for _, v := range versions {
		release(t, filepath.Join(s.folder, v), v, private)
	}
	a, err := Start(t.Context(), s.c, Program{Version: "test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	s.mark = filepath.Join(s.c.DataDir, "mark")
	if err := os.WriteFile(s.mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// upgrading returns an upgrade to a version, which calls at before its steps.
func (s *site) upgrading(version string, at func(step string) error) *upgrading {
	u := newUpgrading(s.c, filepath.Join(s.folder, version), s.options)
	u.step = at
	return u
}

func (s *site) rollingBack(at func(step string) error) *rollingBack {
	r := newRollingBack(s.c, UpgradeOptions{})
	r.step = at
	return r
}

// wantVersion fails unless the program is of a version.
func (s *site) wantVersion(t *testing.T, want string) {
	t.Helper()
	v, err := upgrade.VersionOf(t.Context(), s.options.Program)
	if err != nil || v.Name != want {
		t.Errorf("the program is %v (%v), want %s", v, err, want)
	}
}

// wantUsable fails unless the data can be used.
func (s *site) wantUsable(t *testing.T) {
	t.Helper()
	if err := errors.Join(checkDatabases(t.Context(), s.c), s.c.directory().Check(t.Context())); err != nil {
		t.Errorf("the data cannot be used: %v", err)
	}
}

// wantData fails unless the data is that of before an upgrade, or that which a restore has replaced.
func (s *site) wantData(t *testing.T, kept bool) {
	t.Helper()
	if _, err := os.Stat(s.mark); (err == nil) != kept {
		t.Errorf("the data was kept: %t, want %t", err == nil, kept)
	}
}

func (s *site) wantState(t *testing.T, want string) {
	t.Helper()
	r, err := upgrade.ReadRecord(s.c.DataDir)
	if err != nil || r == nil && want != "" || r != nil && r.State != want {
		t.Errorf("recorded: %+v, %v, want %q", r, err, want)
	}
}

// left are the files of an upgrade that is not in progress any more.
func (s *site) left(t *testing.T) (names []string) {
	t.Helper()
	for _, pattern := range []string{s.options.Program + "*.new", filepath.Join(s.c.DataDir, "*.new"),
		filepath.Join(s.c.DataDir, upgradeDir, ".*"), filepath.Join(s.c.DataDir, upgradeDir, "*"), s.c.DataDir + ".restore*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}

func never(string) error { return nil }

// before returns a function that fails, or ends the goroutine as a kill ends a process, before a step.
func before(step string, kill bool) func(string) error {
	return func(name string) error {
		if name != step {
			return nil
		}
		if kill {
			panic(errStep)
		}
		return errStep
	}
}

// interrupted runs an upgrade or a rollback that must not come to its end.
func interrupted(t *testing.T, do func() error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && r != errStep { //nolint:errorlint // it is the value itself
			panic(r)
		}
	}()
	if err := do(); !errors.Is(err, errStep) {
		t.Errorf("got %v, want a failed step", err)
	}
}

// afterReplacing are the steps before which the program was replaced already.
const afterReplacing = "record the end"

// TestUpgradeFailsAtEachStep fails and kills an upgrade before each of its steps: the program and the
// data can be used, and the upgrade can be repeated.
func TestUpgradeFailsAtEachStep(t *testing.T) {
	t.Parallel()
	s := newSite(t, "v1.0.1")
	for _, step := range []string{"verify the release", "compare the versions", "back up the data", "migrate a copy of the data",
		"record the upgrade", "keep the previous program", "replace the program", afterReplacing} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %t", step, kill), func(t *testing.T) {
				interrupted(t, func() error { _, err := s.upgrading("v1.0.1", before(step, kill)).run(t.Context()); return err })
				if step == afterReplacing {
					s.wantVersion(t, "v1.0.1")
				} else {
					s.wantVersion(t, "v1.0.0")
				}
				s.wantData(t, true)
				s.wantUsable(t)
				if left := s.left(t); !kill && step != afterReplacing && len(left) > 0 {
					t.Errorf("left %q", left)
				}
				if _, err := s.upgrading("v1.0.1", never).run(t.Context()); err != nil {
					t.Fatal(err)
				}
				s.wantVersion(t, "v1.0.1")
				s.wantState(t, upgrade.Installed)
				if left := s.left(t); len(left) != 1 { // the backup
					t.Errorf("left %q, want one backup", left)
				}
				s.reset(t)
			})
		}
	}
}

// TestUpgradeFailsAfterReplacing fails once the program was replaced, as when its folder cannot be
// synchronised: what a rollback needs is kept, and the upgrade can be repeated.
func TestUpgradeFailsAfterReplacing(t *testing.T) {
	t.Parallel()
	s := newSite(t, "v1.0.1")
	u := s.upgrading("v1.0.1", never)
	u.step = func(name string) error {
		if name == "replace the program" {
			return errors.Join(u.files.Replace(), errStep)
		}
		return nil
	}
	interrupted(t, func() error { _, err := u.run(t.Context()); return err })
	s.wantVersion(t, "v1.0.1")
	s.wantState(t, upgrade.Replacing)
	if left := s.left(t); len(left) != 1 { // the backup
		t.Errorf("left %q, want the backup", left)
	}
	if _, err := s.upgrading("v1.0.1", never).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantState(t, upgrade.Installed)
	s.reset(t)
}

// reset rolls back without the data.
func (s *site) reset(t *testing.T) {
	t.Helper()
	r := s.rollingBack(never)
	r.options.KeepData = true
	if _, err := r.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantVersion(t, "v1.0.0")
	s.wantState(t, upgrade.RolledBack)
	s.wantData(t, true)
	if err := errors.Join(os.RemoveAll(filepath.Join(s.c.DataDir, upgradeDir)), (*upgrade.Record)(nil).Write(s.c.DataDir)); err != nil {
		t.Fatal(err)
	}
}

// TestRollbackFailsAtEachStep fails and kills a rollback before each of its steps: it can be
// repeated, and ends with the previous program and the data as it was.
func TestRollbackFailsAtEachStep(t *testing.T) {
	t.Parallel()
	s := newSite(t, "v1.0.1")
	key := filepath.Join(s.c.DataDir, "certs", "own.key")
	if err := os.WriteFile(key, []byte("-----BEGIN PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"record the rollback", "stop the service", "restore the data", "complete the data",
		"put the previous program back", "record the end", "start the service"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %t", step, kill), func(t *testing.T) {
				if _, err := s.upgrading("v1.0.1", never).run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(s.mark, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				interrupted(t, func() error { _, err := s.rollingBack(before(step, kill)).run(t.Context()); return err })
				if step != "start the service" {
					if _, err := s.rollingBack(never).run(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				s.wantVersion(t, "v1.0.0")
				s.wantState(t, upgrade.RolledBack)
				s.wantData(t, false)
				s.wantUsable(t)
				if _, err := os.Stat(key); err != nil {
					t.Errorf("a key that no backup has was lost: %v", err)
				}
				if _, err := s.rollingBack(never).run(t.Context()); err == nil || !strings.Contains(err.Error(), "no upgrade") {
					t.Errorf("a second rollback: %v", err)
				}
			})
		}
	}
}

// TestRollbackAfterInterruptedRestore completes a rollback whose data directory was moved and not
// replaced yet.
func TestRollbackAfterInterruptedRestore(t *testing.T) {
	t.Parallel()
	s := newSite(t, "v1.0.1")
	if _, err := s.upgrading("v1.0.1", never).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	interrupted(t, func() error { _, err := s.rollingBack(before("complete the data", false)).run(t.Context()); return err })
	if err := os.Rename(s.c.DataDir, s.c.DataDir+restoredMark+"20260101T000000.000Z"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.rollingBack(never).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantVersion(t, "v1.0.0")
	s.wantState(t, upgrade.RolledBack)
	s.wantData(t, false)
}

// TestUpgradeIsRefused changes nothing if a release must not or cannot be installed.
func TestUpgradeIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "v0.9.9", "v1.0.1", "v9.0.0")
	program, err := os.ReadFile(s.options.Program)
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"v0.9.9": "is older than v1.0.0", "v9.0.0": "this version cannot migrate"} {
		if _, err := s.upgrading(version, never).run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", version, err, want)
		}
	}
	dry := s.upgrading("v1.0.1", never)
	dry.options.DryRun = true
	if out, err := dry.run(t.Context()); err != nil || out.To.Name != "v1.0.1" {
		t.Errorf("dry run: %+v, %v", out, err)
	}
	unlock, err := lockProgram(s.options.Program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.upgrading("v1.0.1", never).run(t.Context()); err == nil || !strings.Contains(err.Error(), "another upgrade") {
		t.Errorf("during another upgrade: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	elsewhere := s.upgrading("v1.0.1", never)
	elsewhere.c.DataDir = t.TempDir()
	if _, err := elsewhere.run(t.Context()); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("without data: %v", err)
	}
	now, err := os.ReadFile(s.options.Program)
	if err != nil || !bytes.Equal(now, program) {
		t.Errorf("the program was changed: %v", err)
	}
	s.wantState(t, "")
	if left := s.left(t); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// TestUnit finds the unit of a process, and whose systemd has started it.
func TestUnit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		unit string
		user bool
	}{
		"0::/system.slice/signalbox.service\n": {"signalbox.service", false},
		"0::/\n":                               {},
		"0::/user.slice/user-1000.slice/session-2.scope\n":                            {},
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/mqtt.service\n":   {"mqtt.service", true},
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-p1.scope\n":   {},
		"12:cpu:/a.service\n0::/system.slice/system-signalbox.slice/sb@one.service\n": {"sb@one.service", false},
	} {
		if unit, user := unitOf(text); unit != want.unit || user != want.user {
			t.Errorf("%q: got %q, %t", text, unit, user)
		}
	}
}

// TestUnitNames accepts names of services only: root passes them to systemctl.
func TestUnitNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"signalbox.service": true, `plant\x2da@1.service`: true, "-Hother.service": false, "rescue.target": false, "a b.service": false, "": false} {
		if got := unitName.MatchString(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
