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
	"strconv"
	"testing"

	"signalbox/scripts/process"
)

// TestMain runs the tests, or, in the process of the horde, nothing but the attack.
func TestMain(m *testing.M) {
	if order := os.Getenv(hordeVariable); order != "" {
		if err := beHorde(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	process.Main(m)
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
