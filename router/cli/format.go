package cli

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"signalbox/router"
	"signalbox/router/client"
)

// format has the flags for the output of a command.
type format struct {
	output   string
	columns  []string
	noHeader bool
}

// The formats of the output.
const (
	asTable = "table"
	asJSON  = "json"
	asLines = "jsonl"
	asYAML  = "yaml"
	asNames = "name"
)

var formats = []string{asTable, asJSON, asLines, asYAML, asNames}

func (f *format) add(flags *pflag.FlagSet, op *router.Operation) {
	flags.StringVarP(&f.output, "output", "o", asTable, "`FORMAT`: "+strings.Join(formats, ", ")+"; json is the response as it is")
	if op.Media == jsonMedia {
		flags.StringSliceVar(&f.columns, "columns", nil, "`COLUMNS` of the table, separated by commas, such as name,info.version")
		flags.BoolVar(&f.noHeader, "no-header", false, "Print the table without the names of its columns")
	}
}

// failed returns a failure as it is printed: with -o json as the error object itself.
func (f *format) failed(err error) error {
	answer, ok := errors.AsType[*client.Error](err)
	if !ok || f.output != asJSON {
		return err
	}
	return &failure{code: ExitCode(err), err: err, raw: answer.Raw}
}

// printer returns a printer of an operation's responses.
func (f *format) printer(w io.Writer, op *router.Operation) (*printer, error) {
	if !slices.Contains(formats, f.output) {
		return nil, usage("--output: must be one of %s", strings.Join(formats, ", "))
	}
	p := &printer{w: w, format: f.output, columns: f.columns, header: !f.noHeader, operation: op.ID, schema: itemSchema(op.Result)}
	return p, p.checkColumns()
}

// itemSchema returns the schema of the entries of a page.
func itemSchema(s *router.Schema) *router.Schema {
	if s == nil {
		return nil
	}
	for _, m := range s.Members {
		if (m.Name == pageMember || m.Name == eventsMember) && m.Kind == router.List {
			return m.Elem
		}
	}
	if s.Kind == router.List {
		return s.Elem
	}
	return s
}

// pageMember is the member of a numbered page that has its entries, eventsMember that of a page
// of the audit log.
const (
	pageMember   = "data"
	eventsMember = "events"
)

// checkColumns refuses a column that no entry can have.
func (p *printer) checkColumns() error {
	if p.schema == nil || p.schema.Kind != router.Object {
		return nil
	}
	for _, column := range p.columns {
		name, _, _ := strings.Cut(column, ".")
		if !slices.ContainsFunc(p.schema.Members, func(m router.Field) bool { return m.Name == name }) {
			var known []string
			for _, m := range p.schema.Members {
				known = append(known, m.Name)
			}
			return usage("--columns: there is no column %q; there are: %s", column, strings.Join(known, ", "))
		}
	}
	return nil
}
