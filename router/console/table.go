package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
)

// paging is the position in a list, as the template "paging" writes it.
type paging struct {
	Size, Total   int
	First, Last   int    // entries shown, counted from 1; 0 if there is none
	Before, After string // links, "" if there are no more entries
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

// withoutDone returns the query of the page with its question mark, without the message
// that something succeeded; "" if nothing else is in it.
func (q *request) withoutDone() string {
	query := maps.Clone(q.query)
	delete(query, "done")
	delete(query, "of")
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// withQuery returns the link to the same page with another value of a parameter.
func (q *request) withQuery(name, value string) string {
	query := url.Values{}
	for k, v := range q.query {
		if k != "done" && k != "of" {
			query[k] = v
		}
	}
	query.Set(name, value)
	return "?" + query.Encode()
}
