package listen_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/scripts/suite"
)

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := serve(t, options{},
		listen.Config{Protocol: "unix", Address: filepath.Join(dir, "closed")},
		listen.Config{Protocol: "unix", Address: filepath.Join(dir, "open"), SocketMode: "0666"})
	for n, want := range []os.FileMode{0o600, 0o666} {
		info, err := os.Stat(r.addr(n))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", r.addr(n), info.Mode(), err, want)
		}
		wantEcho(t, r.dial(n), "hello")
		c := r.next()
		if c.Addr().IsValid() || c.Raw() == nil {
			t.Errorf("address %s, raw %v", c.Addr(), c.Raw())
		}
	}
	r.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// bindUnix tries to listen on a path.
func bindUnix(t *testing.T, path string) error {
	t.Helper()
	o := listen.Options{Timeout: suite.HangLimit, Limits: limits.New(limits.Config{}, time.Now)}
	s, err := listen.New([]listen.Config{{Protocol: "unix", Address: path, Key: "l."}}, o)
	if err != nil {
		t.Fatal(err)
	}
	err = s.Bind(t.Context())
	t.Cleanup(s.Close)
	return err
}

// leave leaves a socket behind that is not being served.
func leave(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestOnlyAStaleSocketIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	leave(t, stale)
	if err := bindUnix(t, stale); err != nil {
		t.Errorf("a stale socket: %v", err)
	}
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	behind := filepath.Join(dir, "behind")
	leave(t, behind)
	if err := os.Symlink(behind, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		stale:                              "the socket is in use: stop the program that uses it or configure another path: ",
		file:                               "a file that is not a socket has this path: move it away or configure another path: ",
		link:                               "a file that is not a socket has this path: move it away or configure another path: ",
		dir:                                "a file that is not a socket has this path: move it away or configure another path: ",
		filepath.Join(dir, "no", "socket"): "check the address: ",
	} {
		err := bindUnix(t, path)
		if err == nil || !strings.HasPrefix(err.Error(), "broker cannot listen on "+path+" (l.address): "+want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := os.Lstat(behind); err != nil {
		t.Errorf("the target of a link was removed: %v", err)
	}
}

func TestForeignSocketIsNotReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "socket")
	leave(t, path)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Skipf("only root can give a file away: %v", err)
	}
	want := "another user's socket has this path: remove it or configure another path: "
	if err := bindUnix(t, path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

func TestReplacedSocketIsNotRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "socket")
	r := serve(t, options{}, listen.Config{Protocol: "unix", Address: path})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	leave(t, path)
	r.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("another's socket was removed: %v", err)
	}
}
