package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"signalbox/router"
)

// bulk has the flags for creating many objects.
type bulk struct {
	dryRun, goOn, skip bool
	parallel           int
}

// How many objects of a file are sent at the same time.
const (
	usualParallel = 4
	maxParallel   = 64
)

// unused returns an error if there is a flag for the objects of a file, which there is not.
func (b *bulk) unused() error {
	if b.dryRun || b.goOn || b.skip {
		return usage("--dry-run, --continue and --skip-existing are for the objects of a file; give it with -f")
	}
	return nil
}

// bulkable reports whether the command can create many objects: they have a name of their
// own in the body.
func (c *command) bulkable() bool {
	verb := c.verb()
	return (verb == "create" || verb == "add") && !c.destructive() && len(c.arguments) == 1 && c.arguments[0].in == inBody
}

// objectLines are the lines of a file with one object each.
type objectLines struct {
	io.Closer
	in    *bufio.Reader
	total int // -1 if it is not known
}

// openBulk returns the lines of the file if it has many objects: its name ends with
// jsonl or ndjson, or a line with an object is followed by another. Otherwise it returns
// nil, and what was read of standard input can be read again.
func (c *command) openBulk() (*objectLines, error) {
	if !c.bulkable() || len(c.files) == 0 {
		return nil, c.bulk.unused()
	}
	if c.bulk.parallel < 1 || c.bulk.parallel > maxParallel {
		return nil, usage("--parallel: must be from 1 to %d", maxParallel)
	}
	f, err := c.open(c.files[0], "--file")
	if err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(f, maxLine)
	many := c.bulk.dryRun || c.bulk.goOn || c.bulk.skip || slices.Contains([]string{".jsonl", ".ndjson"}, filepath.Ext(c.files[0])) || hasTwoObjects(in)
	if many && c.arguments[0].given {
		return nil, usage("%s is not for a file with many objects, which has their names", c.arguments[0].placeholder())
	}
	if many {
		total, err := countLines(c.files[0])
		return &objectLines{Closer: f, in: in, total: total}, err
	}
	if c.files[0] == "-" {
		c.standardIn, c.tree.env.Stdin = "", in
		return nil, nil
	}
	return nil, f.Close()
}

// countLines returns the number of lines of a file, -1 for standard input.
func countLines(name string) (n int, err error) {
	if name == "-" {
		return -1, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return -1, err
	}
	part := make([]byte, 64<<10)
	for {
		read, err := f.Read(part)
		n += bytes.Count(part[:read], []byte("\n"))
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// hasTwoObjects reports whether the first line is an object and another line follows.
func hasTwoObjects(in *bufio.Reader) bool {
	begin, _ := in.Peek(maxLine) //nolint:errcheck // a short file is not an error
	first, rest, found := bytes.Cut(bytes.TrimLeft(begin, "\r\n\t "), []byte("\n"))
	return found && json.Valid(first) && len(bytes.TrimSpace(rest)) > 0
}

// maxLine bounds a line with an object, in bytes, as the API bounds a body.
const maxLine = 1 << 20

// next returns the next line that is not empty. Its error is io.EOF at the end.
func (l *objectLines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("has more than %d bytes", maxLine)
	}
	if len(line) > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return bytes.TrimSpace(line), err
}

// The results of a line.
const (
	resultDone   = "created"
	resultValid  = "valid"
	resultExists = "exists"
	resultFailed = "failed"
)

// lineResult is the outcome of one line, as -o jsonl prints it.
type lineResult struct {
	Line    int    `json:"line"`
	Name    string `json:"name"`
	Result  string `json:"result"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

// lineRun runs the lines of a file.
type lineRun struct {
	*command
	session  *session
	path     string
	out      io.Writer
	progress *progress
	existing map[string]bool // names that are skipped without a request
	sent     []*sentLine     // those that were not reported yet, in their order
	line     int             // the number of the last one that was read
	done     int
	failed   int
	first    error // the first failure
}

// createMany creates the objects of the lines of a file.
func (c *command) createMany(cmd *cobra.Command, lines *objectLines) error {
	r := &lineRun{command: c, out: cmd.OutOrStdout()}
	if !c.bulk.dryRun {
		s, err := c.tree.connect(&c.connection)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), c.timeout)
		defer cancel()
		if err := s.resolve(ctx, c.op, c.given()); err != nil {
			return err
		}
		r.session, r.path = s, s.path(c.op.Path)
		if r.existing, err = r.existingNames(ctx); err != nil {
			return err
		}
	}
	r.progress = newProgress(cmd.ErrOrStderr(), c.tree.env.Terminal(cmd.ErrOrStderr()), lines.total, c.tree.now)
	err := r.all(cmd.Context(), lines)
	r.progress.end()
	return r.outcome(cmd, err)
}

// existingNames returns the names of the objects that exist if these are to be skipped: asking for
// each takes as long as creating it, and adds a failure to the audit log. It returns nil for
// objects that cannot be listed by their names.
func (r *lineRun) existingNames(ctx context.Context) (map[string]bool, error) {
	list := slices.IndexFunc(r.tree.ops, func(op router.Operation) bool {
		named := slices.ContainsFunc(op.Query, func(f router.Field) bool { return f.Name == "verbose" })
		return named && op.Method == "GET" && op.Path == r.op.Path
	})
	if !r.bulk.skip || list < 0 {
		return nil, nil
	}
	var names []string
	if err := r.session.get(ctx, r.path, url.Values{"verbose": {"false"}}, &names); err != nil {
		return nil, err
	}
	existing := make(map[string]bool, len(names))
	for _, name := range names {
		existing[name] = true
	}
	return existing, nil
}

// report prints the result of a line.
func (r *lineRun) report(result lineResult) error {
	if r.output != asTable && r.output != asNames {
		text, err := encode(result)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(r.out, "%s\n", text)
		return err
	}
	if r.output == asNames {
		_, err := fmt.Fprintln(r.out, printable(result.Name))
		return err
	}
	_, err := fmt.Fprintln(r.out, strings.TrimRight(fmt.Sprintf("%-7d %-8s %s  %s", result.Line, result.Result, printable(result.Name), printable(result.Message)), " "))
	return err
}

// outcome prints a summary and returns the failure of the run, nil if every line is done.
func (r *lineRun) outcome(cmd *cobra.Command, err error) error {
	fmt.Fprintf(cmd.ErrOrStderr(), "signalbox: %d done, %d failed\n", r.done, r.failed)
	switch {
	case cmd.Context().Err() != nil:
		return &failure{code: CodeInterrupted, err: errors.New("not all lines were read; repeat the command with --skip-existing to continue")}
	case err == nil && r.failed == 0:
		return nil
	case r.done > 0:
		return &failure{code: CodePartly, err: fmt.Errorf("some objects were not created: %w", cmp.Or(err, r.first))}
	case err != nil:
		return err
	}
	return r.first
}
