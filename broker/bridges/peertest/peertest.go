// Package peertest starts the servers that bridges lead to, for tests: each on a
// free port of 127.0.0.1, on data of its own, and no longer than the test. It
// must not know what a bridge is.
//
// A program that the machine lacks skips the test, or fails it where the
// environment variable CI is set.
package peertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"signalbox/broker/brokertest"
)

// Option changes how a server is started.
type Option func(*options)

type options struct {
	durable bool
	tls     bool
}

// Durable has the server wait for its disk, as it does in earnest. Without it
// what it says to have stored outlives its process, but not its machine.
func Durable() Option { return func(o *options) { o.durable = true } }

// TLS has the server offer TLS on its port, with a certificate for 127.0.0.1 and
// localhost that an authority of the test has signed.
func TLS() Option { return func(o *options) { o.tls = true } }

// files is where a server has its own, beside its data.
type files struct {
	dir string
	own func(path string) error // makes the server's user the owner
}

// newFiles makes a directory that is removed with the test. It is not one of the
// test's own, which nobody but its user may enter.
func newFiles(t testing.TB) files {
	t.Helper()
	dir, err := os.MkdirTemp("", "peertest-")
	if err != nil {
		t.Fatalf("make a directory for a server: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove a server's directory: %v", err)
		}
	})
	f := files{dir: dir, own: owner(t)}
	if err := f.own(dir); err != nil {
		t.Fatalf("give a directory to a server: %v", err)
	}
	return f
}

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

// write makes a file that only the server's user may read.
func (f files) write(t testing.TB, name string, text []byte) (path string) {
	t.Helper()
	path = f.path(name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatalf("write a server's file: %v", err)
	}
	if err := f.own(path); err != nil {
		t.Fatalf("give a file to a server: %v", err)
	}
	return path
}

// certificate makes an authority and the files of a server's certificate.
func (f files) certificate(t testing.TB) (ca []byte, cert, key string) {
	t.Helper()
	authority := brokertest.NewCA(t)
	pair := authority.Issue(t, brokertest.CertOptions{Subject: "peer", Names: []string{"127.0.0.1", "localhost"}})
	return authority.PEM, f.write(t, "server.crt", pair.Cert), f.write(t, "server.key", pair.Key)
}

// run runs a program that prepares a server, as the server's user.
func (f files) run(t testing.TB, binary string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, arguments...)
	cmd.Dir = f.dir
	cmd.SysProcAttr = attributes(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(binary), err, out)
	}
}

// find gives the path of a program: the last one that a pattern matches, which is
// that of the newest version. Without one the test does not go on.
func find(t testing.TB, debianPackage string, patterns ...string) string {
	t.Helper()
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are sound
		slices.Sort(found)
		for _, path := range slices.Backward(found) {
			if path, err := exec.LookPath(path); err == nil {
				return path
			}
		}
		if path, err := exec.LookPath(pattern); err == nil {
			return path
		}
	}
	missing := t.Skipf
	if os.Getenv("CI") != "" {
		missing = t.Fatalf
	}
	missing("%s is not installed (apt-get install %s)", patterns[len(patterns)-1], debianPackage)
	return ""
}
