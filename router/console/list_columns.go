package console

import (
	"maps"
	"slices"
	"strconv"
)

// columnChoice is the columns of a table, and which of them the query of the page chooses
// ("columns", once for each). The first one names the object and is always shown; without a choice
// all are.
type columnChoice struct {
	Columns []column
	Keep    []option // the rest of the query
}

// column is a column of a table that need not be shown.
type column struct {
	Number int // from 1
	Text   string
	Shown  bool
}

// columns returns the choice for the columns with these heads, the first of which is always shown.
func (q *request) columns(heads ...string) columnChoice {
	var c columnChoice
	chosen := q.query["columns"]
	for i, head := range heads {
		if i > 0 {
			c.Columns = append(c.Columns, column{i + 1, head, len(chosen) == 0 || slices.Contains(chosen, strconv.Itoa(i+1))})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(q.query)) {
		if name == "columns" || slices.Contains(once, name) {
			continue
		}
		for _, value := range q.query[name] {
			c.Keep = append(c.Keep, option{Value: value, Text: name})
		}
	}
	return c
}

// Has reports whether a column is shown.
func (c *columnChoice) Has(number int) bool {
	i := slices.IndexFunc(c.Columns, func(c column) bool { return c.Number == number })
	return i < 0 || c.Columns[i].Shown
}

// Chosen returns the columns that are shown, none if all of them are.
func (c *columnChoice) Chosen() (numbers []int) {
	for _, one := range c.Columns {
		if one.Shown {
			numbers = append(numbers, one.Number)
		}
	}
	if len(numbers) == len(c.Columns) {
		return nil
	}
	return numbers
}
