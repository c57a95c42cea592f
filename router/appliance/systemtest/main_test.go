// Package systemtest runs the program as an operator does: the binary itself,
// as a process with a data directory, spoken to over HTTP and MQTT, with
// Mosquitto's own tools beside it.
//
// It holds tests only. It must not reach into the program: what it wants to
// know it asks through the command line, the API, the broker or the files.
package systemtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"signalbox/scripts/suite"
)

// program is the path of the binary under test, built as it is shipped.
var program string

// TestMain builds the program once, and fails when a goroutine of the tests is
// left after all of them.
func TestMain(m *testing.M) {
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	suite.Main(m, func() error { return os.RemoveAll(dir) })
}

// build leaves the program in a directory that every user may enter, so that a
// test may run it as another one.
func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "systemtest"); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "signalbox")
	cmd := exec.Command(filepath.Join("..", "..", "..", "scripts", "build"))
	cmd.Env = append(os.Environ(), "OUT="+program)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return dir, nil
}
