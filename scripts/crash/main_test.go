// Package crash kills the broker, again and again, while clients publish,
// subscribe, drop off, come back and take over from themselves, and holds it to
// what it has acknowledged: nothing lost, nothing invented, QoS 2 exactly once,
// the order of each publisher kept, retained messages as they were last set, and
// everything in the streams that keep it.
//
// It holds tests only: of the binary, and of its own clients with Mosquitto. It
// must not reach into the program. DESIGN.md tells what the judgement rests on.
package crash

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

// TestMain builds the program once, and fails when a goroutine is left over.
func TestMain(m *testing.M) {
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	suite.Main(m, func() error { return os.RemoveAll(dir) })
}

// build builds the program, unless SIGNALBOX_CRASH_PROGRAM names one.
func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "crash"); err != nil {
		return "", err
	}
	if program = os.Getenv("SIGNALBOX_CRASH_PROGRAM"); program != "" {
		return dir, nil
	}
	program = filepath.Join(dir, "signalbox")
	cmd := exec.Command(filepath.Join("..", "build"))
	cmd.Env = append(os.Environ(), "OUT="+program)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return dir, nil
}
