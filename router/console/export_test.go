package console

import "strings"

// Page is a row of the table of pages.
type Page struct{ Name, Path string }

// Pages returns the table of pages.
func Pages() (all []Page) {
	for _, p := range pages() {
		all = append(all, Page{p.name, p.path})
	}
	return all
}

// PageAt returns the name of the page with a path, "" if there is none.
func PageAt(path string) string {
	for _, p := range pages() {
		p.segments = strings.Split(strings.TrimPrefix(p.path, "/"), "/")
		if _, ok := p.match(strings.Split(strings.TrimPrefix(path, "/"), "/")); ok {
			return p.name
		}
	}
	return ""
}
