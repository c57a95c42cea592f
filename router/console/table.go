package console

import (
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// paging is the position in a list, as the template "paging" writes it.
type paging struct {
	Size, Total   int
	First, Last   int    // entries shown, counted from 1; 0 if there is none
	Before, After string // links, "" if there are no more entries
	Downloads     []link // to all entries, none if there are none
}

// pageSizes are the numbers of rows that a page may have.
var pageSizes = []int{25, 50, 100}

// window returns offset and count of the list that the page's query asks for; the offset
// is a multiple of the count.
func (q *request) window() (offset, size int) {
	size, _ = strconv.Atoi(q.query.Get("size"))
	if !slices.Contains(pageSizes, size) {
		size = q.prefs.PageSize
	}
	offset, _ = strconv.Atoi(q.query.Get("offset"))
	return min(max(0, offset), maxOffset) / size * size, size
}

// maxOffset bounds the position in a list.
const maxOffset = 1 << 30

// listQuery returns the query for an operation that returns a list: the page's window
// and those of its parameters that names has and that are not empty.
func (q *request) listQuery(names ...string) url.Values {
	offset, size := q.window()
	query := url.Values{"offset": {strconv.Itoa(offset)}, "count": {strconv.Itoa(size)}}
	for _, name := range names {
		if v := q.query.Get(name); v != "" {
			query.Set(name, v)
		}
	}
	return query
}

// paging returns the position in a list of total entries. Past the end, the last page is
// shown instead.
func (q *request) paging(total int) paging {
	offset, size := q.window()
	p := paging{Size: size, Total: total, First: min(offset+1, total), Last: min(offset+size, total)}
	if total > 0 && offset >= total { // the last entry of the last page was deleted
		q.lastPage = q.withQuery("offset", strconv.Itoa((total-1)/size*size))
	}
	if offset > 0 {
		p.Before = q.withQuery("offset", strconv.Itoa(max(0, offset-size)))
	}
	if offset+size < total {
		p.After = q.withQuery("offset", strconv.Itoa(offset+size))
	}
	return p
}

// once are the parameters of a query that no link to the page keeps: of the message that
// something succeeded, and of the selection. The scripts remove them from the address.
var once = []string{"done", "of", "select"}

// withoutOnce returns the query of the page with its question mark, without what belongs to
// one visit; "" if nothing else is in it.
func (q *request) withoutOnce() string {
	query := maps.Clone(q.query)
	for _, name := range once {
		delete(query, name)
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// withQuery returns the link to the same page with another value of a parameter.
func (q *request) withQuery(name, value string) string {
	query := url.Values{}
	for k, v := range q.query {
		if !slices.Contains(once, k) {
			query[k] = v
		}
	}
	query.Set(name, value)
	return "?" + query.Encode()
}

// selection is which rows of a list are selected, as the template "select-all" writes it.
type selection struct {
	All    bool   // every row is
	Link   string // selects all rows that the page shows, or none if all are selected
	posted []string
}

// selection returns the rows that were posted as a field, or all rows if the query requests them.
// part is the element with the list.
func (q *request) selection(name, part string) selection {
	s := selection{posted: q.http.PostForm[name], All: q.http.Method != http.MethodPost && q.query.Get("select") == "all"}
	other := "all"
	if s.All {
		other = "none"
	}
	s.Link = q.withQuery("select", other) + "#" + part
	return s
}

// Has reports whether a row is selected.
func (s selection) Has(name string) bool { return s.All || slices.Contains(s.posted, name) }

// checkbox returns the cell by which the object of a row is selected for what can be done with several.
func (s selection) checkbox(name, label string) template.HTML {
	checked := ""
	if s.Has(name) {
		checked = " checked"
	}
	return template.HTML(`<td><input type="checkbox" name="selected" form="selection" value="` + template.HTMLEscapeString(name) + //nolint:gosec // escaped
		`"` + checked + ` aria-label="` + template.HTMLEscapeString(label) + `"></td>`)
}
