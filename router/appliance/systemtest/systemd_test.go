package systemtest

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// serviceManager receives what a service reports to systemd.
type serviceManager struct{ *net.UnixConn }

func newServiceManager(t *testing.T) serviceManager {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // short: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return serviceManager{conn}
}

// alive is the state that the watchdog waits for.
const alive = "WATCHDOG=1"

// receive returns the next state.
func (m serviceManager) receive(t *testing.T) string {
	t.Helper()
	buffer := make([]byte, 4096)
	if err := m.SetReadDeadline(time.Now().Add(suite.HangLimit)); err != nil {
		t.Fatal(err)
	}
	n, err := m.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

// want fails unless the next state that is not from the watchdog begins with a text.
func (m serviceManager) want(t *testing.T, state string) {
	t.Helper()
	got := m.receive(t)
	for got == alive {
		got = m.receive(t)
	}
	if !strings.HasPrefix(got, state) {
		t.Fatalf("got %q, want %s", got, state)
	}
}

// wantAlive fails unless the next states are from the watchdog.
func (m serviceManager) wantAlive(t *testing.T, times int) {
	t.Helper()
	for range times {
		if got := m.receive(t); got != alive {
			t.Fatalf("got %q, want %s", got, alive)
		}
	}
}

// supervised runs the program with the variables that systemd sets for a unit with
// Type=notify.
func supervised(t *testing.T, m serviceManager, dir string, watchdog time.Duration, more ...string) *service {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `export WATCHDOG_PID=$$; exec "$0" serve`, process.Program)
	cmd.Env = append(configured(nil).environ(dir), "NOTIFY_SOCKET="+m.LocalAddr().String(), "WATCHDOG_USEC="+strconv.FormatInt(watchdog.Microseconds(), 10))
	cmd.Env = append(cmd.Env, more...)
	p, err := process.Serve(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		suite.NoPanic(t, p.Stderr.String())
	})
	return &service{p, dir}
}

// TestServiceManagerIsNotified starts, reloads and stops the service as systemd does. While
// it answers, it is reported to be alive.
func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	m := newServiceManager(t)
	p := supervised(t, m, dataDir(t), 100*time.Millisecond)
	m.want(t, "READY=1")
	p.awaitReady(t)
	if got := root(t, p).status(t, "GET", "/readyz", nil); got != 200 {
		t.Errorf("/readyz after READY=1: %d", got)
	}
	m.wantAlive(t, 3)
	p.Signal(syscall.SIGHUP)
	m.want(t, "RELOADING=1\nMONOTONIC_USEC=")
	m.want(t, "READY=1")
	p.Signal(syscall.SIGTERM)
	m.want(t, "STOPPING=1")
	p.wantStopped(t)
}

// TestLostFilesAreNotified deletes a database: the service reports that it stops.
func TestLostFilesAreNotified(t *testing.T) {
	t.Parallel()
	m, dir := newServiceManager(t), dataDir(t)
	p := supervised(t, m, dir, time.Hour, "SIGNALBOX_DATA_CHECK_INTERVAL=1s")
	m.want(t, "READY=1")
	if err := os.Remove(filepath.Join(dir, "signalbox.db")); err != nil {
		t.Fatal(err)
	}
	m.want(t, "STOPPING=1")
	if code := p.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
}

// unitFile returns the path of a file of the packages.
func unitFile(name string) string { return filepath.Join("..", "..", "..", "packaging", name) }

// maxExposure is the exposure of the unit that systemd-analyze may find, of 100.
const maxExposure = "15"

// TestUnit has systemd verify the unit, and rate what a service that was taken over could do.
func TestUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("systemd-analyze is missing; scripts/install installs systemd")
		}
		t.Skip("systemd-analyze is missing: install systemd (scripts/install)")
	}
	analyze := func(t *testing.T, args ...string) (report string, ok bool) {
		t.Helper()
		got := finish(t, exec.Command("systemd-analyze", append([]string{"--no-pager", "security", "--offline=true"}, args...)...))
		return got.stdout + got.stderr, got.code == 0
	}
	unit := filepath.Join(t.TempDir(), "signalbox.service")
	write(t, unit, read(t, unitFile("signalbox.service")))
	if report, ok := analyze(t, "--threshold="+maxExposure, unit); !ok {
		t.Error(report)
	}
	if got := finish(t, exec.Command("systemd-analyze", "--no-pager", "verify", "--man=no", runnable(t, unit))); got.code != 0 || got.stderr != "" {
		t.Errorf("verify: %+v", got)
	}
	write(t, unit, strings.Replace(read(t, unit), "ProtectSystem=strict\n", "", 1)+"\n[Service]\nMemoryDenyWriteExecute=no\nPrivateUsers=no\n")
	if report, ok := analyze(t, "--threshold="+maxExposure, unit); ok {
		t.Errorf("a unit without protection was accepted: %s", report)
	}
}

// runnable returns a copy of the unit whose program exists on this machine.
func runnable(t *testing.T, unit string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "signalbox.service")
	write(t, path, strings.ReplaceAll(read(t, unit), "/usr/bin/signalbox", process.Program))
	return path
}

// TestLowPortsUnit checks that the file for ports below 1024 grants that right only.
func TestLowPortsUnit(t *testing.T) {
	t.Parallel()
	var set []string
	for line := range strings.Lines(read(t, unitFile("low-ports.conf"))) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found && !strings.HasPrefix(line, "#") {
			set = append(set, key+"="+value)
		}
	}
	want := []string{"PrivateUsers=no", "CapabilityBoundingSet=CAP_NET_BIND_SERVICE", "AmbientCapabilities=CAP_NET_BIND_SERVICE"}
	if !slices.Equal(set, want) {
		t.Errorf("got %q, want %q", set, want)
	}
}
