package apitest_test

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage less often than a service: each of the many services starts
// with hashes and migrations that take some ten megabytes for a moment, for each of
// which the memory of all the others would be scanned.
//
// In a process of startBrokerProcess it runs a broker instead.
func TestMain(m *testing.M) {
	if name := os.Getenv(otherVariable); name != "" {
		fmt.Fprintln(os.Stderr, serveOther(name))
		os.Exit(1)
	}
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
