package systemtest

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aead.dev/minisign"

	"signalbox/broker/brokertest"
	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// TestUpgradeNeedsAKey refuses a file while no key is trusted, and one with a wrong key.
func TestUpgradeNeedsAKey(t *testing.T) {
	t.Parallel()
	dir, env := dataDir(t), configured(nil)
	serve(t, dir, env).stop(t)
	before := stored(t, dir)
	program := filepath.Join(t.TempDir(), "signalbox")
	if err := os.Link(process.Program, program); err != nil {
		t.Skip("the temporary folders have no links")
	}
	public, _, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, file := filepath.Join(t.TempDir(), "key"), filepath.Join(t.TempDir(), "release")
	write(t, key, public.String())
	write(t, file, read(t, process.Program))
	wantRefused(t, finish(t, programCommand(program, env.environ(dir), "upgrade", file)), "there is no signature")
	write(t, file+".minisig", "damaged")
	wantRefused(t, finish(t, programCommand(program, env.environ(dir), "upgrade", file)), "--key")
	wantRefused(t, finish(t, programCommand(program, env.environ(dir), "upgrade", "--key", key, file)), "damaged")
	wantRefused(t, finish(t, programCommand(program, env.environ(dir), "upgrade", "rollback")), "no upgrade")
	if got := finish(t, programCommand(program, env.environ(dir), "upgrade", "status")); got.code != 0 || !strings.Contains(got.stdout, "none is recorded") {
		t.Errorf("status: %+v", got)
	}
	after := stored(t, dir)
	delete(after, filepath.Join(dir, "upgrade"))
	if fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the data directory was changed: %v, before %v", after, before)
	}
}

// TestUpgradeWithoutSpace refuses to begin where the new program would not fit beside the present one.
func TestUpgradeWithoutSpace(t *testing.T) {
	t.Parallel()
	dir, env, small := dataDir(t), configured(nil), t.TempDir()
	serve(t, dir, env).stop(t)
	cmd := exec.Command("/bin/sh", "-c", `mount -t tmpfs -o size=100m none "$1" && cp "$0" "$1/signalbox" && exec "$1/signalbox" upgrade "$0"`, process.Program, small)
	cmd.Env, cmd.SysProcAttr = env.environ(dir), ownMounts()
	if err := exec.Command("unshare", "--mount", "true").Run(); err != nil {
		t.Skip("this user may not mount, so there is no full disk")
	}
	wantRefused(t, finish(t, cmd), "free some space")
	if got := command(t, env.environ(dir), "upgrade", "status"); got.code != 0 || !strings.Contains(got.stdout, "none is recorded") {
		t.Errorf("status: %+v", got)
	}
}

func programCommand(program string, env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = env
	cmd.SysProcAttr = process.DieWithParent()
	return cmd
}

// upgradeKills is how often TestCampaignUpgrade kills an upgrade.
const upgradeKills = 20

// TestCampaignUpgrade upgrades a service, which clients publish to, from one version to the next, kills
// the upgrade at many moments of it, and rolls back. Nothing that was acknowledged is lost. The first
// version is built from the same source, or from that in SIGNALBOX_TEST_UPGRADE_FROM, the directory
// of an earlier version: it may not be able to open the data of the next one, so nothing is killed.
func TestCampaignUpgrade(t *testing.T) {
	t.Parallel()
	s := newUpgradeSite(t)
	s.start(t)
	tr := newTraffic(t, s.machine)
	at := clientAddresses(s.machine)
	tr.subscribe(t, "reader", "traffic/#", 1, at)
	absent := tr.subscribe(t, "absent", "traffic/#", 1, at)
	tr.publish(1, false, at)
	tr.publish(1, true, at)
	tr.awaitAcknowledged(t, 200)
	absent.disconnect()

	wantRefused(t, s.command(t, "upgrade", s.damaged), "the signature is wrong")
	if got := s.command(t, "upgrade", "--dry-run", s.next); got.code != 0 || !strings.Contains(got.stdout, "would replace version v1.0.0") {
		t.Fatalf("dry run: %+v", got)
	}
	began := time.Now()
	if got := s.command(t, "upgrade", s.next); got.code != 0 || !strings.Contains(got.stdout, "restart it") {
		t.Fatalf("upgrade: %+v", got)
	}
	took := time.Since(began)
	s.restart(t, "v1.0.1")
	absent.reconnect()
	wantRefused(t, s.command(t, "upgrade", s.previous), "is older than")
	kills := upgradeKills
	if earlierSource() != "" {
		kills = 0
	}
	for i := range kills {
		s.rollBack(t, "--keep-data")
		s.killed(t, took*time.Duration(i+1)*3/(2*upgradeKills)) // the last ones at its end
		if got := s.command(t, "upgrade", s.next); got.code != 0 {
			t.Fatalf("after kill %d: %+v", i, got)
		}
		s.restart(t, "v1.0.1")
		tr.awaitAcknowledged(t, 20)
	}
	tr.check(t)
	t.Logf("%d messages were acknowledged; an upgrade takes %v", tr.acknowledged(), took.Round(time.Millisecond))
	s.run.stop(t)
	s.wantRolledBack(t)
}

func earlierSource() (dir string) { return os.Getenv("SIGNALBOX_TEST_UPGRADE_FROM") }

// releases are two versions of the program with their signatures, and a damaged one.
type releases struct{ previous, next, damaged string }

func buildReleases(t *testing.T) (r releases) {
	t.Helper()
	public, private, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	r = releases{filepath.Join(folder, "v1.0.0"), filepath.Join(folder, "v1.0.1"), filepath.Join(folder, "damaged")}
	source := filepath.Join("..", "..", "..")
	for path, from := range map[string]string{r.previous: cmp.Or(earlierSource(), source), r.next: source} {
		buildVersion(t, from, path, public.String())
		write(t, path+".minisig", string(minisign.Sign(private, []byte(read(t, path)))))
	}
	text := []byte(read(t, r.next))
	write(t, r.damaged+".minisig", read(t, r.next+".minisig"))
	text[len(text)/2] ^= 1
	write(t, r.damaged, string(text))
	return r
}

// install returns the path of a copy of the previous version.
func (r releases) install(t testing.TB) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "signalbox")
	write(t, program, read(t, r.previous))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// buildVersion builds the program from a source as the version that its file is named after, which
// trusts a release key.
func buildVersion(t *testing.T, source, path, key string) {
	t.Helper()
	build := exec.Command(filepath.Join(source, "scripts", "build"))
	build.Env = append(os.Environ(), "OUT="+path, "VERSION="+filepath.Base(path), "COMMIT=abc", "DATE=2026-01-01T00:00:00Z", "RELEASE_KEY="+key)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// upgradeSite is a machine with a program of its own, and releases.
type upgradeSite struct {
	*machine
	releases
}

func newUpgradeSite(t *testing.T) *upgradeSite {
	t.Helper()
	r := buildReleases(t)
	return &upgradeSite{releases: r, machine: &machine{dir: dataDir(t), mqtt: brokertest.FreePort(t, suite.Host()), electionTimeout: "2s", id: 1, program: r.install(t)}}
}

// command runs a command of the program that is installed.
func (m *machine) command(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, programCommand(m.program, m.settings().environ(m.dir), args...))
}

// restart starts the program that is installed, which must be of a version.
func (m *machine) restart(t *testing.T, version string) {
	t.Helper()
	m.run.stop(t)
	m.start(t)
	if got := m.command(t, "upgrade", "status"); got.code != 0 || !strings.Contains(got.stdout, "service runs  "+version+" ") {
		t.Errorf("status: %+v, want %s", got, version)
	}
}

func (s *upgradeSite) rollBack(t *testing.T, args ...string) {
	t.Helper()
	s.run.stop(t)
	if got := s.command(t, append([]string{"upgrade", "rollback"}, args...)...); got.code != 0 {
		t.Fatalf("rollback: %+v", got)
	}
	s.start(t)
}

// killed kills an upgrade, with the processes that it has started, after a time. What is installed
// must be one of the versions, and the service must start with it.
func (s *upgradeSite) killed(t *testing.T, after time.Duration) {
	t.Helper()
	cmd := programCommand(s.program, s.machine.settings().environ(s.dir), "upgrade", s.next)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(after, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) //nolint:errcheck // it may have ended
	cmd.Wait()                                                                                //nolint:errcheck // it was killed
	kill.Stop()
	got := s.command(t, "version")
	t.Logf("killed after %v: %s%s", after.Round(time.Millisecond), got.stdout, out.String())
	if got.code != 0 || !strings.Contains(got.stdout, " v1.0.") {
		t.Fatalf("no program can be run: %+v", got)
	}
	s.run.stop(t)
	s.start(t)
}

// wantRolledBack rolls back with the data: a client that was created after the upgrade does not exist.
func (s *upgradeSite) wantRolledBack(t *testing.T) {
	t.Helper()
	s.start(t)
	s.api.must(t, "POST", s.api.at("/clients"), object{"username": "later", "password": passwordOf("later")}, nil)
	wantRefused(t, s.command(t, "upgrade", "rollback"), "stop it for the rollback")
	s.rollBack(t)
	if got := s.command(t, "upgrade", "status"); !strings.Contains(got.stdout, "rolled back") || !strings.Contains(got.stdout, "service runs  v1.0.0 ") {
		t.Errorf("status: %+v", got)
	}
	if s.knows(t, "later") || !s.knows(t, worker) {
		t.Errorf("clients after the rollback: %q", s.clients(t))
	}
	s.run.stop(t)
}

// TestCampaignRollingUpgrade upgrades a cluster, which clients publish to, node by node: nodes of
// both versions work together, and nothing that was acknowledged is lost. A node goes back
// without its data.
func TestCampaignRollingUpgrade(t *testing.T) {
	t.Parallel()
	r := buildReleases(t)
	c := startExternalCluster(t, 3, func(t testing.TB, m *machine) { m.program = r.install(t) })
	c.mode = "hp"
	c.create(t)
	tr := newTraffic(t, c.machines[0], c.machines...)
	tr.allowDuplicates = true
	for _, m := range c.machines {
		tr.subscribe(t, fmt.Sprint("reader-", m.id), "traffic/#", 1, clientAddresses(m))
	}
	tr.publishAtEach(c.machines)
	tr.awaitAcknowledged(t, 100)
	leader, others := c.leading(t)
	for i, m := range append(others, leader) {
		if got := m.command(t, "upgrade", r.next); got.code != 0 {
			t.Fatalf("node %d: %+v", m.id, got)
		}
		m.restart(t, "v1.0.1")
		c.wantTogether(t, fmt.Sprint("after-", m.id))
		suite.WaitFor(t, "the leader warns of versions that differ until the last node is upgraded", func() bool {
			return strings.Contains(c.info(t).Warning, "runs version") == (i < len(others))
		})
		tr.awaitAcknowledged(t, 100)
	}
	m := others[0]
	m.run.stop(t)
	wantRefused(t, m.command(t, "upgrade", "rollback"), "--keep-data")
	if got := m.command(t, "upgrade", "rollback", "--keep-data"); got.code != 0 {
		t.Fatalf("rollback of node %d: %+v", m.id, got)
	}
	m.start(t)
	c.wantTogether(t, "rolled-back")
	tr.awaitAcknowledged(t, 100)
	tr.check(t)
}

// wantTogether waits until the cluster is complete, and adds a client through each node that all have.
func (c *cluster) wantTogether(t *testing.T, name string) {
	t.Helper()
	c.await(t, "active", c.machines...)
	for _, m := range c.machines {
		username := fmt.Sprint(name, "-at-", m.id)
		body := object{"username": username, "password": passwordOf(username)}
		suite.WaitFor(t, "a client is added", func() bool { // there may be no leader at this moment
			status := m.api.status(t, "POST", m.api.at("/clients"), body)
			return status < 300 || m.knows(t, username)
		})
		wantEverywhere(t, username, c.machines...)
	}
}
