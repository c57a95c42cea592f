package systemtest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// TestFullDisk fills the disk of a running service. /readyz reports it and the log
// names the remedy, the API can still read, messages that need no disk are still
// delivered, and everything works as soon as there is space again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	p := serveOnSmallDisk(t, configured(nil))
	r := root(t, p)
	r.sensor(t, "pump-7", "secret")
	fill := p.fill(t)
	suite.WaitFor(t, "the service notices that the disk is full", func() bool {
		acknowledgedOrNot(t, p)
		return r.status(t, "GET", "/readyz", nil) == http.StatusServiceUnavailable
	})
	suite.WaitFor(t, "the reason is told", func() bool { return strings.Contains(p.Stderr.String(), "free some space") })
	if status := r.status(t, "GET", "/healthz", nil); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	if got := r.names(t, "clients"); len(got) != 2 {
		t.Errorf("clients %q", got)
	}
	made := 0
	suite.WaitFor(t, "no client can be created", func() bool { // some requests are smaller than the space that is left
		status := r.status(t, "POST", r.at("/clients"), object{"username": fmt.Sprint("early-", made), "password": "secret"})
		if status != http.StatusNoContent && status < 500 {
			t.Errorf("create a client on a full disk: %d", status)
		}
		made++
		return status >= 500
	})
	d := mqtttest.Join(t, p.MQTT, "pump-7", "secret")
	mqtttest.Acknowledged(t, d.Publish("plant/pump-7", 1, false, "nobody waits for it"))

	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	suite.WaitFor(t, "the service is ready again", func() bool {
		return r.status(t, "GET", "/readyz", nil) == http.StatusOK
	})
	retained := mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword)
	mqtttest.Acknowledged(t, retained.Publish("kept", 1, true, "there is room"))
	r.must(t, "POST", r.at("/clients"), object{"username": "late", "password": "secret"}, nil)
	p.stop(t)
}

// acknowledgedOrNot publishes a large message that must be stored.
func acknowledgedOrNot(t *testing.T, p *service) {
	t.Helper()
	d := mqtttest.Join(t, p.MQTT, mqttAdmin, mqttPassword)
	d.Publish("kept", 1, true, make([]byte, 256<<10))
	d.Disconnect(100) // it may be acknowledged or not
}

// serveOnSmallDisk is serve with a data directory that is a file system of its own,
// which only the service sees and which ends with it.
func serveOnSmallDisk(t *testing.T, s settings) *service {
	t.Helper()
	dir := dataDir(t)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `mount -t tmpfs -o size=8m,mode=0700 none "$1" && exec "$0" serve`, process.Program, dir)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = s.environ(dir), t.TempDir(), ownMounts()
	started, err := process.Serve(cmd)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this user may not mount, so there is no full disk")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.Kill)
	p := &service{started, dir}
	p.awaitReady(t)
	return p
}

// ownMounts allows a process to mount for itself; a user other than root gets a user
// namespace.
func ownMounts() *syscall.SysProcAttr {
	a := process.DieWithParent()
	a.Unshareflags = syscall.CLONE_NEWNS
	if os.Geteuid() != 0 {
		a.Cloneflags = syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return a
}

// fill fills the file system of the process's data directory, and returns the path of
// the file that does so.
func (p *service) fill(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(fmt.Sprintf("/proc/%d/root", p.Pid()), p.dir, "filler")
	f, err := os.Create(path)
	for block := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	f.Close()
	return path
}
