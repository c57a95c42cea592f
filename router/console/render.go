package console

import (
	"bytes"
	"compress/gzip"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// view is the data of a page's template: a struct that embeds frame.
type view interface{ base() *frame }

// templates are the parsed templates of the pages, each in each language and for each
// depth of a path, made when they are needed first.
type templates struct {
	console *Console
	mu      sync.Mutex
	made    map[templateKey]*template.Template
}

type templateKey struct {
	template, language, root string
}

func newTemplates(c *Console) *templates {
	return &templates{console: c, made: map[templateKey]*template.Template{}}
}

// of returns the template set of a page.
func (ts *templates) of(p *page, l *locale, root string) (*template.Template, error) {
	key := templateKey{p.template, l.Tag, root}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.made[key]; t != nil {
		return t, nil
	}
	functions := ts.console.functions(l, root)
	t, err := parsePage(p.template, functions)
	if err == nil {
		foldConstants(t, functions)
		ts.made[key] = t
	}
	return t, err
}

// sharedTemplates returns the templates that all pages share. They are parsed once: only
// the functions that they call depend on the language and the depth of the path.
var sharedTemplates = sync.OnceValues(func() (*template.Template, error) {
	source, err := files()
	if err != nil {
		return nil, err
	}
	names := (&Console{}).functions(&locale{}, "") // parsing needs their names
	return template.New("layout.html").Funcs(names).ParseFS(source, "templates/layout.html", "templates/components/*.html")
})

// parsePage returns the template of a page, with those that all pages share.
func parsePage(name string, functions template.FuncMap) (*template.Template, error) {
	shared, err := sharedTemplates()
	if err != nil {
		return nil, err
	}
	t, err := shared.Clone()
	if err != nil {
		return nil, err
	}
	source, err := files()
	if err != nil {
		return nil, err
	}
	return t.Funcs(functions).Option("missingkey=error").ParseFS(source, "templates/"+name+".html")
}

// bodies are the buffers of pages, which grow once and not for each page. One that is larger than
// maxKeptBody is not kept.
var bodies = sync.Pool{New: func() any { return &bytes.Buffer{} }}

const maxKeptBody = 256 << 10

// write sends a page, or the fragments that the script asked for.
func (c *Console) write(q *request, p *page, v view, status int) {
	c.fillFrame(q, p, v.base())
	body := bodies.Get().(*bytes.Buffer)
	defer func() {
		if body.Cap() <= maxKeptBody {
			clear(body.Bytes()) // it may have a token that is shown once
			body.Reset()
			bodies.Put(body)
		}
	}()
	if err := c.execute(body, q, p, v); err != nil {
		c.fail(q.w, q.http, err)
		return
	}
	h := q.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	out := body.Bytes()
	if acceptsGzip(q.http) {
		h.Set("Content-Encoding", "gzip")
		out = compressFast(out)
	}
	h.Set("Content-Length", strconv.Itoa(len(out)))
	q.w.WriteHeader(status)
	if q.http.Method != http.MethodHead {
		q.w.Write(out) //nolint:errcheck // a disconnected browser needs no response
	}
}

func (c *Console) execute(body *bytes.Buffer, q *request, p *page, v view) error {
	t, err := c.views.of(p, q.lang, q.root)
	if err != nil {
		return err
	}
	names := fragmentsOf(q.http)
	switch {
	case names == nil:
		return t.Execute(body, v)
	case p != q.page || p == notFoundPage: // in the place of what was asked for
		return t.ExecuteTemplate(body, contentPart, v)
	}
	q.w.Header().Set(fragmentHeader, strings.Join(names, ","))
	for _, name := range names {
		if err := t.ExecuteTemplate(body, name, v); err != nil {
			return err
		}
	}
	return nil
}

// fragmentHeader names the parts of a page that a script asks for, with commas between
// them, and in the response those that it has: that of an error has none. contentPart is
// the part that every page has.
const (
	fragmentHeader = "X-Fragment"
	contentPart    = "content"
)

// fragmentsOf returns the parts that a request asks for, nil for the whole page.
func fragmentsOf(r *http.Request) []string {
	if names := r.Header.Get(fragmentHeader); names != "" {
		return strings.Split(names, ",")
	}
	return nil
}

// hasFragments reports whether the page has the parts that a request asks for.
func (p *page) hasFragments(r *http.Request) bool {
	return !slices.ContainsFunc(fragmentsOf(r), func(name string) bool { return name != contentPart && !slices.Contains(p.fragments, name) })
}

var fastWriters = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	return w
}}

// compressFast compresses a page that is sent once.
func compressFast(b []byte) []byte {
	var out bytes.Buffer
	w := fastWriters.Get().(*gzip.Writer)
	defer fastWriters.Put(w)
	w.Reset(&out)
	w.Write(b) //nolint:errcheck // a bytes.Buffer takes everything
	w.Close()  //nolint:errcheck // as above
	return out.Bytes()
}
