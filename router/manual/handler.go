package manual

import (
	_ "embed"
	"html/template"
	"net/http"
	"strings"
)

//go:embed style.css
var style []byte

//go:embed icon.svg
var icon []byte

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// asset is a file that is served among the pages, by its name.
type asset struct {
	contentType string
	content     []byte
}

var assets = map[string]asset{
	"style.css": {"text/css; charset=utf-8", style},
	"icon.svg":  {"image/svg+xml", icon},
}

// policy allows a page the assets of this service and the search form, and nothing
// else.
const policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// view is the data of page.html. All links are relative, so that the manual also works
// below a path that a reverse proxy adds.
type view struct {
	Title   string
	Base    string // from this page to the directory of the pages: "docs/" or ""
	Home    string // from this page to the index
	Name    string // of the page
	Pages   []Page
	Content template.HTML
	Query   string
	Results []result
}

// Index returns the handler of the index, which also serves a search: ?q=words.
func (m *Manual) Index(path string) http.Handler {
	folder := path[strings.LastIndexByte(path, '/')+1:] + "/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := view{Title: "Manual", Base: folder, Home: strings.TrimSuffix(folder, "/"), Pages: m.pages, Query: r.URL.Query().Get("q")}
		if v.Query != "" {
			v.Title, v.Results = "Search", search(m.render(), v.Query)
		}
		v.write(w)
	})
}

// Serve writes the page, or the asset, with a name. It reports whether it exists.
func (m *Manual) Serve(w http.ResponseWriter, name, home string) bool {
	if a, found := assets[name]; found {
		w.Header().Set("Content-Type", a.contentType)
		w.Header().Set("Cache-Control", "no-cache")
		w.Write(a.content) //nolint:errcheck // a disconnected caller needs no response
		return true
	}
	for _, d := range m.render() {
		if d.Name == name {
			view{Title: d.Title, Home: home, Name: d.Name, Pages: m.pages, Content: template.HTML(d.HTML)}.write(w) //nolint:gosec // made from our own pages
			return true
		}
	}
	return false
}

func (v view) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Cache-Control", "no-cache")
	if err := pageTemplate.Execute(w, v); err != nil {
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
	}
}
