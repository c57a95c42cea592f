package console

import (
	"net/url"
	"slices"
	"time"
)

// listView is a page that is a table of objects.
type listView struct {
	frame
	Intro  string // what the list is for, shown when it is empty
	Add    link   // the primary action, no text for none
	Head   []string
	Full   map[string]string // what an abbreviated head stands for
	Rows   []row
	Paging paging
	Err    *apiError
	More   []link // what deletes several objects

	CanMeasure, Rates bool // messages per second can be, or are measured

	Choice columnChoice // of columns; none for a table that is always shown as a whole
}

// Shows reports whether the column with an index is shown.
func (v *listView) Shows(index int) bool { return v.Choice.Has(index + 1) }

// HasActions reports whether something can be done with one of the objects.
func (v *listView) HasActions() bool {
	return slices.ContainsFunc(v.Rows, func(r row) bool { return len(r.Actions) > 0 })
}

// link leads to a page of the console, relative to the root of the console.
type link struct {
	Text, To string
	Icon     string
	Dialog   bool // opened as a dialog
	Danger   bool // leads to what deletes something
}

// row is an object in a table: its cells, of which the first is its name, and what can be
// done with it.
type row struct {
	Cells   []cell
	Actions []link
}

// cell is a value in a table.
type cell struct {
	Text   string
	To     string // link, "" for none
	Code   bool   // an identifier or an address
	Time   any    // epoch milliseconds or RFC 3339 instead of Text, nil if it is none
	State  string // good, bad or warn, "" for none
	Number bool   // right-aligned
	Quiet  string // second line
	Warn   string // further line, a warning

	Features []listedFeature // of a broker, instead of Text
}

// formView is a page with a form, and before it what its action affects.
type formView struct {
	frame
	Intro    []string
	Warnings []string // what the reader should know before the action
	Facts    []fact
	Form     form
	Links    []link // buttons after the form
	More     []fact // after the form
	Back     link
}

// Cancellable returns the form with a link that leads back, as every form has one.
func (v *formView) Cancellable(root string) form {
	f := v.Form
	if f.Cancel == "" && v.Back.To != "" {
		f.Cancel = root + "/" + v.Back.To
	}
	return f
}

// fact is a name and a value.
type fact struct {
	Name string
	Cell cell
}

// inProject returns the path of a page of the project, with a query of pairs.
func (q *request) inProject(page string, pairs ...string) string {
	return withPairs("p/"+q.params["projectId"]+"/"+page, pairs)
}

// inBroker returns the path of a page of the broker, with a query of pairs.
func (q *request) inBroker(page string, pairs ...string) string {
	return withPairs("p/"+q.params["projectId"]+"/b/"+q.params["brokerId"]+"/"+page, pairs)
}

func withPairs(page string, pairs []string) string {
	if len(pairs) == 0 {
		return page
	}
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		query.Set(pairs[i], pairs[i+1])
	}
	return page + "?" + query.Encode()
}

// confirmForm returns the form of a page that deletes something; with a name, that must
// be typed.
func (q *request) confirmForm(submit, name, cancel string) form {
	f := q.newForm("", submit)
	f.Danger, f.Confirm, f.Cancel = true, name, cancel
	return f
}

// confirmed returns an error unless the name was typed.
func (q *request) confirmed(name string) error {
	if typed := q.posted("confirm"); typed == name || typed == show(name) {
		return nil
	}
	return &apiError{Status: 400, Code: "INVALID_REQUEST", Message: q.t("form.unconfirmed", show(name))}
}

// expiry returns the cell for a time until which something is valid; 0 is for ever.
func (q *request) expiry(at int64, now time.Time) cell {
	switch left := time.UnixMilli(at).Sub(now); {
	case at == 0:
		return cell{Text: q.t("time.unlimited")}
	case left < 0:
		return cell{Time: at, State: "bad"}
	case left < 7*24*time.Hour:
		return cell{Time: at, State: "warn"}
	default:
		return cell{Time: at}
	}
}
