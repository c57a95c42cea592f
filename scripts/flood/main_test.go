// Package flood attacks the broker with groups of hostile clients, and checks three
// properties meanwhile and afterwards: legitimate clients are served, memory stays
// within what the configuration allows, and nothing is left over.
//
// It has tests only, of the binary as it is shipped. It must not access the program's
// internals: it uses MQTT, /metrics and the kernel. DESIGN.md lists the attack groups
// and the origin of the bounds.
package flood

import (
	"fmt"
	"os"
	"testing"

	"signalbox/scripts/process"
)

// TestMain runs the tests, or the attack in the process that startAttack starts.
func TestMain(m *testing.M) {
	if parameters := os.Getenv(attackVariable); parameters != "" {
		if err := runAttack(parameters); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	process.Main(m)
}
