// Package doctor finds out what is wrong with an installation: it has the report, and the checks
// of files, disks, certificates and addresses, each of one thing. Package appliance composes them
// and adds those that need the service's own parts.
//
// Of this module the package must import nothing but broker/storage.
package doctor

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Level is how serious a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Error   Level = "error"
)

// Finding is the result of a check: what was found about an object, and what to do about it.
type Finding struct {
	Level  Level  `json:"level"`
	Check  string `json:"check"`
	Object string `json:"object,omitempty"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	Fixed  bool   `json:"fixed,omitempty"`

	fix  func() error
	kind fixKind
}

// fixKind is when a finding may be fixed.
type fixKind int

const (
	fixAlways  fixKind = iota
	fixStopped         // only while no service uses the directory
)

// Report is what all checks found, in the order of the checks.
type Report struct {
	Version  string    `json:"version"`
	Time     time.Time `json:"time"`
	DataDir  string    `json:"data_dir,omitempty"`
	Running  bool      `json:"running"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings []Finding `json:"findings"`
}

// Add adds findings and counts them.
func (r *Report) Add(all ...Finding) {
	r.Findings = append(r.Findings, all...)
	r.count()
}

func (r *Report) count() {
	r.Errors, r.Warnings = 0, 0
	for _, f := range r.Findings {
		switch {
		case f.Level == Error:
			r.Errors++
		case f.Level == Warning:
			r.Warnings++
		}
	}
}

// Fix corrects the modes of files, and deletes files that an earlier process has left, unless a
// service runs. A finding that was corrected is ok from then on.
func (r *Report) Fix() {
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.fix == nil || f.kind == fixStopped && r.Running {
			continue
		}
		if err := f.fix(); err != nil {
			f.Text += "; it could not be fixed: " + err.Error()
			continue
		}
		f.Level, f.Fixed, f.Remedy, f.fix = OK, true, "", nil
		f.Text += "; fixed"
	}
	r.count()
}

// Write prints the report for people, a line for each finding and one for what to do about it.
// printable escapes what a terminal would take for commands.
func (r *Report) Write(w io.Writer, printable func(string) string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		name := f.Check
		if f.Object != "" {
			name += " " + f.Object
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", f.Level, printable(name), printable(f.Text)) //nolint:errcheck // Flush reports it
		for line := range strings.Lines(f.Remedy) {
			fmt.Fprintf(t, "\t\t  -> %s\n", printable(strings.TrimRight(line, "\n"))) //nolint:errcheck // as above
		}
	}
	return t.Flush()
}

// Summary returns the numbers of errors and warnings as a sentence.
func (r *Report) Summary() string {
	return fmt.Sprintf("%s and %s", number(r.Errors, "error"), number(r.Warnings, "warning"))
}

func number(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Good returns a finding that needs no attention.
func Good(check, object, format string, args ...any) Finding {
	return Finding{Level: OK, Check: check, Object: object, Text: fmt.Sprintf(format, args...)}
}

// Warn returns a finding that needs attention at some time.
func Warn(check, object, text, remedy string) Finding {
	return Finding{Level: Warning, Check: check, Object: object, Text: text, Remedy: remedy}
}

// Bad returns a finding that needs attention now.
func Bad(check, object, text, remedy string) Finding {
	return Finding{Level: Error, Check: check, Object: object, Text: text, Remedy: remedy}
}

// Failed returns the finding of an error. What follows a semicolon in its text is what to do.
func Failed(check, object string, err error) Finding {
	text := strings.Join(strings.Fields(fmt.Sprint(err)), " ")
	what, remedy, _ := strings.Cut(text, "; ")
	return Bad(check, object, what, remedy)
}

// Each returns the errors that errors.Join has joined, at any depth; none for nil.
func Each(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // only an error that is nothing but a list
	if !ok {
		return []error{err}
	}
	texts := []string{}
	for _, e := range joined.Unwrap() {
		texts, all = append(texts, e.Error()), append(all, Each(e)...)
	}
	if strings.Join(texts, "\n") != err.Error() {
		return []error{err}
	}
	return all
}

// FailedEach returns a finding for each of joined errors, or one that nothing is wrong.
func FailedEach(check, object string, err error, good string) (all []Finding) {
	for _, e := range Each(err) {
		all = append(all, Failed(check, object, e))
	}
	if all == nil {
		all = append(all, Good(check, object, "%s", good))
	}
	return all
}
