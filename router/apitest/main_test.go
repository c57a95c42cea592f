package apitest_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// TestMain collects garbage less often than a service: each of the many services starts
// with hashes and migrations that take some ten megabytes for a moment, for each of
// which the memory of all the others would be scanned.
//
// Most of the time of a test is waiting, for the disk or for another broker, so more of
// them run concurrently than there are processors, unless -parallel is given.
//
// In a process of startBrokerProcess it runs a broker instead.
func TestMain(m *testing.M) {
	if name := os.Getenv(otherVariable); name != "" {
		fmt.Fprintln(os.Stderr, serveOther(name))
		os.Exit(1)
	}
	debug.SetGCPercent(400)
	flag.Parse()
	if !isGiven("test.parallel") {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel*runtime.GOMAXPROCS(0))); err != nil {
			panic(err) // the flag accepts numbers
		}
	}
	os.Exit(m.Run())
}

// parallel is how many tests run concurrently per processor.
const parallel = 2

func isGiven(name string) (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}
