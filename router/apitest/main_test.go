package apitest_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has memory collected more rarely than a service does: each of the many
// services begins with hashes and migrations that take some ten megabytes for a
// moment, for which all that the others hold would be looked through.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
