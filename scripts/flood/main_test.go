// Package flood has crowds of hostile clients fall upon the broker, each in a
// way of its own, and holds it to three things meanwhile and afterwards: those
// who behave are served, memory stays within what the configuration allows, and
// nothing is left behind.
//
// It holds tests only, of the binary as it is shipped. It must not reach into
// the program: what it wants to know it asks MQTT, /metrics and the kernel.
// DESIGN.md lists the crowds and what the bounds come from.
package flood

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"signalbox/scripts/suite"
)

// program is the path of the binary under test.
var program string

// TestMain builds the program once, and fails when a goroutine is left over. In
// the process of the horde it does nothing but rage.
func TestMain(m *testing.M) {
	if order := os.Getenv(hordeVariable); order != "" {
		if err := beHorde(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	dir, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	suite.Main(m, func() error { return os.RemoveAll(dir) })
}

// build builds the program, unless SIGNALBOX_FLOOD_PROGRAM names one.
func build() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "flood"); err != nil {
		return "", err
	}
	if program = os.Getenv("SIGNALBOX_FLOOD_PROGRAM"); program != "" {
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

// knob reads a number from the environment.
func knob(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
