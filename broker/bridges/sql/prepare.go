package sql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"signalbox/broker/bridges/reach"
)

// prepare reads the schemas of all tables that rows are inserted into. It returns the problems of
// all of them at once.
func (c *connector) prepare(ctx context.Context, s session) error {
	var found []error
	for _, name := range slices.Sorted(maps.Keys(c.plans)) {
		p := c.plans[name]
		shape, err := s.look(ctx, p.table)
		if err != nil {
			_, why := s.judge(err, nil)
			return reach.Explained(err, fmt.Sprintf("look at the table %s: %s", p.table, why))
		}
		found = append(found, p.fit(shape)...)
	}
	return together(found)
}

// together joins errors in one line.
func together(found []error) error {
	if len(found) == 0 {
		return nil
	}
	sentences := make([]string, len(found))
	for i, err := range found {
		sentences[i] = err.Error()
	}
	return errors.New(strings.Join(sentences, "; "))
}

// fit chooses the table's columns for the fields of records, or returns what an operator has to
// change.
func (p *plan) fit(s *shape) (found []error) {
	complain := func(format string, a ...any) {
		found = append(found, fmt.Errorf("the table %s "+format, slices.Concat([]any{p.table}, a)...))
	}
	if s == nil {
		complain("does not exist, or the user may not see it: create it, or change the target of the topic mapping %q", p.mapping)
		return found
	}
	if s.trouble != "" {
		complain("%s", s.trouble)
		return found
	}
	p.columns, p.statement = p.columns[:0], ""
	for _, f := range p.fields {
		c := s.column(f)
		switch {
		case c == nil:
			complain("has no column %q%s: add it, or %s", f, s.similar(f), p.source)
		case c.generated:
			complain("makes the values of its column %q itself: %s", f, p.source)
		case c.closed:
			complain("does not let the user insert into its column %q: grant INSERT", f)
		default:
			p.columns = append(p.columns, *c)
		}
	}
	for _, c := range s.columns {
		if c.required && !slices.ContainsFunc(p.columns, func(o column) bool { return o.name == c.name }) {
			complain("wants a value for its column %q: give it a default, or %s", c.name, p.source)
		}
	}
	return found
}

// column returns the column with that name, nil if there is none.
func (s *shape) column(name string) *column {
	for i := range s.columns {
		if s.columns[i].name == name || s.loose && strings.EqualFold(s.columns[i].name, name) {
			return &s.columns[i]
		}
	}
	return nil
}

// similar points out a column whose name differs only in case.
func (s *shape) similar(name string) string {
	for _, c := range s.columns {
		if strings.EqualFold(c.name, name) {
			return fmt.Sprintf(", but %q", c.name)
		}
	}
	return ""
}
