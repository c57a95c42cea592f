// Package peertest starts the servers that bridges send to, for tests: each on a free port of
// 127.0.0.1, with its own data, and no longer than the test. It must not know what a bridge is.
//
// If the machine lacks a program, the test is skipped, or fails if the environment variable CI is
// set.
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

// Durable makes the server sync to its disk, as in production. Without it, data that it reports
// as stored survives its process, but not the machine.
func Durable() Option { return func(o *options) { o.durable = true } }

// TLS enables TLS on the server's port, with a certificate for 127.0.0.1 and localhost from the
// test's authority.
func TLS() Option { return func(o *options) { o.tls = true } }

// files is a server's directory for files other than its data.
type files struct {
	dir string
	own func(path string) error // makes the server's user the owner
}

// newFiles creates a directory that is removed after the test. It is not t.TempDir, which only
// the test's user may enter.
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

// write creates a file that only the server's user may read.
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

// certificate creates an authority and the files of a server's certificate.
func (f files) certificate(t testing.TB) (ca []byte, cert, key string) {
	t.Helper()
	authority := brokertest.NewCA(t)
	pair := authority.Issue(t, brokertest.CertOptions{Subject: "peer", Names: []string{"127.0.0.1", "localhost"}})
	return authority.PEM, f.write(t, "server.crt", pair.Cert), f.write(t, "server.key", pair.Key)
}

// run executes a program that prepares a server, as the server's user.
func (f files) run(t testing.TB, binary string, arguments ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, arguments...)
	cmd.Dir = f.dir
	cmd.SysProcAttr = attributes(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(binary), err, out)
	}
}

// find returns the path of a program: the last match of a pattern, which is the newest version.
// Without a match it skips the test.
func find(t testing.TB, debianPackage string, patterns ...string) string {
	t.Helper()
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // the patterns are valid
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
