// Testlines reads what "go test -json" writes and prints what "go test" would
// have printed: one line for each package, and everything that a failed test
// said. Then it says which tests were skipped and why, which "go test" keeps
// to itself. Where the environment variable CI is set, a skipped test is a
// failure.
//
// It must not import anything of this module.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	skipped, err := run(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlines:", err)
		os.Exit(2)
	}
	if skipped > 0 && os.Getenv("CI") != "" {
		fmt.Println("FAIL: CI is set, so a skipped test is a failure")
		os.Exit(1)
	}
}

// event is one line of "go test -json". Test is empty where it concerns the
// whole package; Package is empty while a package is built.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// line is a line of output and the test that wrote it.
type line struct{ test, text string }

// pkg is what is known about a package whose tests are under way.
type pkg struct {
	lines  []line
	ended  map[string]string // action by which a test ended
	failed bool
}

// run copies the events from r to w as lines and counts the skipped tests.
func run(r io.Reader, w io.Writer) (skipped int, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	pkgs := map[string]*pkg{}
	var skips []string
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Fprintln(w, in.Text()) // what go says itself
			continue
		}
		if e.Package == "" {
			fmt.Fprint(w, e.Output)
			continue
		}
		p := pkgs[e.Package]
		if p == nil {
			p = &pkg{ended: map[string]string{}}
			pkgs[e.Package] = p
		}
		if p.take(e) {
			fmt.Fprint(w, p.report())
			skips = append(skips, p.skips(e.Package)...)
			delete(pkgs, e.Package)
		}
	}
	for _, p := range pkgs { // go test was ended before them
		fmt.Fprint(w, p.report())
	}
	summary(w, skips)
	return len(skips), in.Err()
}

// take notes an event; true means that the package is done.
func (p *pkg) take(e event) (done bool) {
	switch e.Action {
	case "output":
		p.lines = append(p.lines, line{e.Test, e.Output})
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.failed = e.Action == "fail"
			return true
		}
		p.ended[e.Test] = e.Action
	}
	return false
}

// report is the package's own last line and, when it failed, what the tests
// said that failed or never ended.
func (p *pkg) report() string {
	var b strings.Builder
	for _, l := range p.lines {
		if l.test == "" && p.wanted(l.text) || l.test != "" && p.failed && p.speaks(l) {
			b.WriteString(l.text)
		}
	}
	return b.String()
}

// wanted tells whether a line of the package itself is shown: all when it
// failed, otherwise only the one with its result.
func (p *pkg) wanted(text string) bool {
	return p.failed || strings.HasPrefix(text, "ok ") || strings.HasPrefix(text, "? ") ||
		strings.HasPrefix(text, "\t") && strings.Contains(text, "coverage:")
}

// speaks tells whether a failed package's test is worth hearing. The framing
// of a verbose run is not.
func (p *pkg) speaks(l line) bool {
	framing := strings.HasPrefix(l.text, "=== ")
	return !framing && p.ended[l.test] != "pass" && p.ended[l.test] != "skip"
}

// skips lists the package's skipped tests, each with its reason.
func (p *pkg) skips(name string) (found []string) {
	for test, action := range p.ended {
		if action != "skip" {
			continue
		}
		reason := ""
		for _, l := range p.lines {
			if l.test == test && !strings.HasPrefix(l.text, "=== ") && !strings.Contains(l.text, "--- SKIP") {
				reason += " " + strings.TrimSpace(l.text)
			}
		}
		found = append(found, fmt.Sprintf("%s %s:%s", name, test, reason))
	}
	return found
}

func summary(w io.Writer, skips []string) {
	fmt.Fprintf(w, "skipped tests: %d\n", len(skips))
	for _, s := range skips {
		fmt.Fprintf(w, "\t%s\n", s)
	}
}
