package apitest_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// TestMain has memory collected more rarely than a service does: each of the many
// services begins with hashes and migrations that take some ten megabytes for a
// moment, for which all that the others hold would be looked through.
//
// Most of what a test does is to wait, for the disk or for another broker, so more of
// them run at once than there are processors, unless -parallel says otherwise.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	flag.Parse()
	if !isGiven("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel*runtime.GOMAXPROCS(0))); err != nil {
			panic(err) // the flag takes numbers
		}
	}
	os.Exit(m.Run())
}

// parallel is how many tests run at once for each processor.
const parallel = 2

func isGiven(name string) (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}
