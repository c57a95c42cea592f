package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is one line of "go test -json". Test is empty where it concerns the
// whole package; Package is empty while a package is built.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// printer turns events into lines.
type printer struct {
	outcome
	out     io.Writer
	total   int // packages, 0 where it is not known
	done    int
	running map[string]*pkg
	spoke   bool // since the last tick
}

// run prints the events of r as lines to w. At every tick without a line since
// the one before, it names the tests that run.
func run(r io.Reader, w io.Writer, total int, ticks <-chan time.Time) (*outcome, error) {
	p := &printer{out: w, total: total, running: map[string]*pkg{}}
	lines, failed := scan(r)
	for lines != nil {
		select {
		case line, ok := <-lines:
			if !ok {
				lines = nil
				break
			}
			p.take(line)
		case <-ticks:
			p.tick()
		}
	}
	for _, name := range p.names() { // go test was ended before them
		p.print(p.running[name].report())
	}
	return &p.outcome, <-failed
}

// scan reads lines; the error comes when they have ended.
func scan(r io.Reader) (<-chan string, <-chan error) {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		in := bufio.NewScanner(r)
		in.Buffer(nil, 16<<20)
		for in.Scan() {
			lines <- in.Text()
		}
		failed <- in.Err()
		close(lines)
	}()
	return lines, failed
}

func (p *printer) print(text string) {
	if text != "" {
		p.spoke = true
		fmt.Fprint(p.out, text)
	}
}

// take handles one line of input.
func (p *printer) take(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		p.print(line + "\n") // from go itself
		return
	}
	if e.Package == "" {
		p.print(e.Output)
		return
	}
	k := p.running[e.Package]
	if k == nil {
		k = &pkg{name: e.Package, ended: map[string]string{}}
		p.running[e.Package] = k
	}
	if k.take(e) {
		p.finish(k)
	}
}

// finish prints a package that has ended.
func (p *printer) finish(k *pkg) {
	delete(p.running, k.name)
	p.done++
	p.passed += k.count("pass")
	p.failed += k.count("fail")
	if k.failed && k.count("fail") == 0 {
		p.failed++ // it was not built, or ended in the middle of a test
	}
	p.skipped = append(p.skipped, k.skips()...)
	p.panics = append(p.panics, k.panics...)
	if k.race.text != "" {
		p.races = append(p.races, k.name+"\n"+k.race.text)
	}
	text := k.report()
	if p.total > 0 && text != "" {
		text = fmt.Sprintf("[%d/%d] %s", p.done, p.total, text)
	}
	p.print(text)
}

// tick names what runs where nothing was printed for a while.
func (p *printer) tick() {
	if !p.spoke && len(p.running) > 0 {
		for _, name := range p.names() {
			fmt.Fprintf(p.out, "... %s\n", p.running[name].busy())
		}
	}
	p.spoke = false
}

func (p *printer) names() (names []string) {
	for name := range p.running {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// line is a line of output and the test that wrote it.
type line struct{ test, text string }

// pkg is what is known about a package whose tests run.
type pkg struct {
	name   string
	lines  []line
	begun  []string          // tests, in the order in which they began
	ended  map[string]string // action by which a test ended
	panics []string
	race   race
	failed bool
}

// race is the first report of the race detector. go test ascribes it to any test that runs.
type race struct {
	text  string
	lines int
	ended bool
}

// maxRace is how many lines of a report are shown: other tests may log between them.
const maxRace = 60

func (r *race) take(text string) {
	begins := strings.HasPrefix(text, "WARNING: DATA RACE")
	if r.ended || r.text == "" && !begins {
		return
	}
	if r.ended = strings.HasPrefix(text, "=====") || r.lines == maxRace; r.ended {
		return
	}
	r.text += text
	r.lines++
}

// take notes an event and reports whether the package has ended.
func (p *pkg) take(e event) bool {
	switch e.Action {
	case "run":
		p.begun = append(p.begun, e.Test)
	case "output":
		p.lines = append(p.lines, line{e.Test, e.Output})
		p.race.take(e.Output)
		if text, ok := strings.CutPrefix(e.Output, "survived panic: "); ok && !strings.Contains(text, "deliberate") {
			p.panics = append(p.panics, p.name+" "+e.Test+": "+strings.TrimSpace(text))
			p.failed = true
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.failed = p.failed || e.Action == "fail"
			return true
		}
		p.ended[e.Test] = e.Action
	}
	return false
}

// count returns how many tests ended in a way, their parts left out.
func (p *pkg) count(action string) (n int) {
	for test, a := range p.ended {
		if a == action && !strings.Contains(test, "/") {
			n++
		}
	}
	return n
}

// busy names the tests that run.
func (p *pkg) busy() string {
	var tests []string
	for _, test := range p.begun {
		if p.ended[test] == "" && !strings.Contains(test, "/") {
			tests = append(tests, test)
		}
	}
	const most = 4
	if more := len(tests) - most; more > 0 {
		tests = append(tests[:most], fmt.Sprintf("and %d more", more))
	}
	return p.name + ": " + strings.Join(tests, ", ")
}

// report returns the package's own last line and, where it failed, what was said
// by the tests that failed or never ended.
func (p *pkg) report() string {
	var b strings.Builder
	for _, l := range p.lines {
		if l.test == "" && p.wanted(l.text) || l.test != "" && p.failed && p.speaks(l) {
			b.WriteString(l.text)
		}
	}
	return b.String()
}

// wanted reports whether a line of the package itself is shown: all where it
// failed, otherwise only the one with its result.
func (p *pkg) wanted(text string) bool {
	return p.failed || strings.HasPrefix(text, "ok ") || strings.HasPrefix(text, "? ") ||
		strings.HasPrefix(text, "\t") && strings.Contains(text, "coverage:")
}

// speaks reports whether a line of a failed package's test is shown. The framing
// of a verbose run is not.
func (p *pkg) speaks(l line) bool {
	if strings.HasPrefix(l.text, "=== ") {
		return false
	}
	return len(p.panics) > 0 || p.ended[l.test] != "pass" && p.ended[l.test] != "skip"
}

// skips lists the package's skipped tests, each with its reason.
func (p *pkg) skips() (found []string) {
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
		found = append(found, fmt.Sprintf("%s %s:%s", p.name, test, reason))
	}
	slices.Sort(found)
	return found
}
