package router

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// overlay is a set of rows of one method that share a pattern of httprouter, which does
// not allow a literal and a parameter in the same position. The shared pattern has the
// parameter there, and the row is chosen by the literals of the path; each row keeps
// its own role.
//
// Two consequences: A literal beside a parameter ("status", "admins", "test") is a
// reserved id; ours are generated, so there is no collision. And a path may match the
// shared pattern and yet no row.
type overlay struct {
	method  string
	pattern string   // in httprouter's form
	rows    []*route // most literals first
}

// pick returns the row for a path that matches the pattern, or nil.
func (o *overlay) pick(path string) *route {
	for _, row := range o.rows {
		if row.matches(path) {
			return row
		}
	}
	return nil
}

// matches reports whether the path matches the row's literals and parameters. A
// parameter is never empty.
func (row *route) matches(path string) bool {
	for _, want := range row.segments {
		var got string
		var ok bool
		if path, ok = strings.CutPrefix(path, "/"); !ok {
			return false
		}
		if strings.HasPrefix(want, "*") {
			return true
		}
		end := strings.IndexByte(path, '/')
		if end < 0 {
			end = len(path)
		}
		got, path = path[:end], path[end:]
		if got == "" || want[0] != ':' && got != want || want != givenName && strings.Contains(got, innerSlash) {
			return false
		}
	}
	return path == ""
}

// innerSlash replaces an escaped slash in a path, which is part of a name, so that rows
// are found by the slashes between names.
const innerSlash = "\x00"

// givenName is the parameter for a name chosen by users, which may contain slashes; all
// others are ids.
const givenName = ":connectionName"

// markEscapedSlashes returns the request with escaped slashes replaced.
func markEscapedSlashes(r *http.Request) *http.Request {
	escaped := r.URL.EscapedPath()
	if !strings.Contains(strings.ToLower(escaped), "%2f") {
		return r
	}
	segments := strings.Split(escaped, "/")
	for i, s := range segments {
		name, err := url.PathUnescape(s)
		if err != nil {
			return r
		}
		segments[i] = strings.ReplaceAll(name, "/", innerSlash)
	}
	apart := r.Clone(r.Context())
	apart.URL.Path, apart.URL.RawPath = strings.Join(segments, "/"), ""
	return apart
}

// segmentsOf splits a path of the table, "/api/users/{userId}", into segments in
// httprouter's form: "api", "users", ":userId".
func segmentsOf(path string) []string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range parts {
		if inner, ok := strings.CutPrefix(s, "{"); ok {
			parts[i] = ":" + strings.TrimSuffix(inner, "}")
		}
	}
	return parts
}

// overlays groups the rows by their shared pattern. It fails if two rows have the same
// path, or name a parameter in the same position differently.
func overlays(rows []*route) ([]*overlay, error) {
	groups := map[string]*overlay{}
	for _, row := range rows {
		pattern, err := sharedPattern(row, rows)
		if err != nil {
			return nil, err
		}
		key := row.Method + " " + pattern
		if groups[key] == nil {
			groups[key] = &overlay{method: row.Method, pattern: pattern}
		}
		groups[key].rows = append(groups[key].rows, row)
	}
	list := slices.Collect(maps.Values(groups))
	for _, o := range list {
		slices.SortStableFunc(o.rows, func(a, b *route) int { return b.literals() - a.literals() })
		if err := o.checkDistinct(); err != nil {
			return nil, err
		}
		for i, row := range o.rows {
			row.preferred = o.rows[:i]
		}
	}
	return list, nil
}

func (o *overlay) checkDistinct() error {
	for i, row := range o.rows {
		for _, other := range o.rows[:i] {
			if slices.Equal(row.segments, other.segments) {
				return fmt.Errorf("%s and %s answer the same path %s %s", other.ID, row.ID, row.Method, row.Path)
			}
		}
	}
	return nil
}

// literals counts the segments that are not parameters.
func (row *route) literals() int {
	n := 0
	for _, s := range row.segments {
		if s[0] != ':' {
			n++
		}
	}
	return n
}

// sharedPattern returns the row's pattern with a parameter wherever another row of the
// method has one after the same prefix.
func sharedPattern(row *route, rows []*route) (string, error) {
	shared := slices.Clone(row.segments)
	for i := range shared {
		for _, other := range rows {
			if other.Method != row.Method || len(other.segments) <= i || other.segments[i][0] != ':' || !sameStart(shared[:i], other.segments) {
				continue
			}
			if shared[i][0] == ':' && shared[i] != other.segments[i] {
				return "", fmt.Errorf("%s and %s name a parameter in the same place differently: %s, %s", row.ID, other.ID, shared[i], other.segments[i])
			}
			shared[i] = other.segments[i]
		}
	}
	return "/" + strings.Join(shared, "/"), nil
}

// sameStart reports whether a row matches the shared prefix: a parameter there covers a
// literal.
func sameStart(shared, segments []string) bool {
	for i, s := range shared {
		if s[0] != ':' && s != segments[i] {
			return false
		}
	}
	return true
}
