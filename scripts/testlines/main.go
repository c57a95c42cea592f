// Testlines reads what "go test -json" writes and prints what a person wants to
// see: one line for each package, numbered where the total is given, the tests
// that run while nothing ends, and everything that a failed test said. It closes
// with the skipped tests and their reasons, with the panics that a package
// survived, with the first data race of each package, and with the number of tests that passed, failed and were skipped.
//
// A panic is a failure of its package. Where the environment variable CI is set,
// so is a skipped test.
//
// It must not import anything of this module.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// quiet is after how much time without a line the tests that run are named.
const quiet = 30 * time.Second

func main() {
	packages := flag.Int("packages", 0, "number of packages that are tested, to show how far the run is")
	flag.Parse()
	ticks := time.NewTicker(quiet)
	defer ticks.Stop()
	outcome, err := run(os.Stdin, os.Stdout, *packages, ticks.C)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlines:", err)
		os.Exit(2)
	}
	if !outcome.report(os.Stdout, os.Getenv("CI") != "") {
		os.Exit(1)
	}
}

// outcome is what a run came to.
type outcome struct {
	passed, failed int
	skipped        []string // package, test and reason
	panics         []string // package and first line
	races          []string // package and report
}

// report prints the closing lines and reports whether the run succeeded.
func (o *outcome) report(w io.Writer, ci bool) bool {
	for _, s := range o.skipped {
		fmt.Fprintln(w, "skipped:", s)
	}
	for _, p := range o.panics {
		fmt.Fprintln(w, "panic:", p)
	}
	for _, r := range o.races {
		fmt.Fprint(w, "data race: ", r)
	}
	ok := o.failed == 0 && len(o.panics) == 0
	if len(o.panics) > 0 {
		fmt.Fprintln(w, "FAIL: the product panicked in these packages")
	}
	if ci && len(o.skipped) > 0 {
		fmt.Fprintln(w, "FAIL: CI is set, so a skipped test is a failure")
		ok = false
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", o.passed, o.failed, len(o.skipped))
	return ok
}
