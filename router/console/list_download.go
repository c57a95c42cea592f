package console

import (
	"maps"
	"net/url"
	"strings"
)

// calledWith is what an operation was called with.
type calledWith struct {
	params map[string]string
	query  url.Values
}

// recordCall records a call that succeeded, for downloads.
func (q *request) recordCall(operation string, params map[string]string, query url.Values) {
	q.calls.Lock()
	defer q.calls.Unlock()
	if q.queries == nil {
		q.queries = map[string]calledWith{}
	}
	q.queries[operation] = calledWith{params, query}
}

// downloads returns links to all entries of a list that the page shows a part of, as the filter of
// the page selects them.
func (q *request) downloads(operation string) []link {
	q.calls.Lock()
	with, ok := q.queries[operation]
	q.calls.Unlock()
	if !ok {
		return nil
	}
	query := maps.Clone(with.query)
	if query == nil {
		query = url.Values{}
	}
	query.Del("offset")
	query.Del("count")
	path := q.console.paths(operation)
	for name, value := range with.params {
		path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(value))
	}
	var links []link
	for _, format := range []string{"csv", "json"} {
		query.Set("format", format)
		links = append(links, link{Text: strings.ToUpper(format), To: ".." + path + "?" + query.Encode()})
	}
	return links
}

// allOf is pagingOf for a list of which the page shows all entries.
func (q *request) allOf(operation string, total int) paging {
	return paging{Total: total, Downloads: q.downloads(operation)}
}

// pagingOf is paging for a list that an operation returned, with links to download it.
func (q *request) pagingOf(operation string, total int) paging {
	p := q.paging(total)
	if total > 0 {
		p.Downloads = q.downloads(operation)
	}
	return p
}
