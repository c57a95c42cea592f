package sql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/broker/bridges/target"
)

// prepare reads the schemas of all tables that rows are inserted into. It returns the problems of
// all of them at once.
func (c *connector) prepare(ctx context.Context, s session) error {
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.plans)) {
		p := c.plans[name]
		schema, err := s.readTableSchema(ctx, p.table)
		if err != nil {
			_, why := s.classifyError(err, nil)
			return target.Explain(err, fmt.Sprintf("look at the table %s: %s", p.table, why))
		}
		found = append(found, p.matchColumns(schema)...)
	}
	return joinErrors(found)
}

// joinErrors joins errors in one line.
func joinErrors(found []error) error {
	if len(found) == 0 {
		return nil
	}
	sentences := make([]string, len(found))
	for i, err := range found {
		sentences[i] = err.Error()
	}
	return errors.New(strings.Join(sentences, "; "))
}

// matchColumns chooses the table's columns for the fields of records, or returns what an operator
// has to change.
func (p *plan) matchColumns(s *tableSchema) (found []error) {
	addf := func(format string, a ...any) {
		found = append(found, fmt.Errorf("the table %s "+format, slices.Concat([]any{p.table}, a)...))
	}
	if s == nil {
		addf("does not exist, or the user may not see it: create it, or change the target of the topic mapping %q", p.mapping)
		return found
	}
	if s.problem != "" {
		addf("%s", s.problem)
		return found
	}
	p.columns, p.statement = p.columns[:0], ""
	for _, f := range p.fields {
		c := s.column(f)
		switch {
		case c == nil:
			addf("has no column %q%s: add it, or %s", f, s.similarName(f), p.source)
		case c.generated:
			addf("makes the values of its column %q itself: %s", f, p.source)
		case c.denied:
			addf("does not let the user insert into its column %q: grant INSERT", f)
		default:
			p.columns = append(p.columns, *c)
		}
	}
	for _, c := range s.columns {
		if c.required && !slices.ContainsFunc(p.columns, func(o column) bool { return o.name == c.name }) {
			addf("requires a value for its column %q: give it a default, or %s", c.name, p.source)
		}
	}
	return found
}

// column returns the column with that name, nil if there is none.
func (s *tableSchema) column(name string) *column {
	for i := range s.columns {
		if s.columns[i].name == name || s.ignoresCase && strings.EqualFold(s.columns[i].name, name) {
			return &s.columns[i]
		}
	}
	return nil
}

// similarName points out a column whose name differs only in case.
func (s *tableSchema) similarName(name string) string {
	for _, c := range s.columns {
		if strings.EqualFold(c.name, name) {
			return fmt.Sprintf(", but %q", c.name)
		}
	}
	return ""
}
