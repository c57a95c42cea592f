// Package console serves the web console below /ui: pages that are rendered on the
// server, with scripts that only make them quicker and live.
//
// A page is a row of a table ([pages]): its path, its template, the operations that it
// calls and the function that fills it. Pages call operations of the API in process,
// with the credentials of the browser's request; so a page can do what its caller may do
// through the API, and nothing else. The package receives that call as a function and
// imports no package of ours that has data of the service.
//
// Every link and redirect is relative to the depth of the page; so the console works
// below any path that a reverse proxy adds, without a setting.
package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
)

// Path is the path below which the console is served.
const Path = "/ui"

// Call performs an operation of the API in process for the caller of r, as if the
// request had come over HTTP. params are the parameters of the operation's path; body is
// JSON, nil for none. It is safe for concurrent use.
type Call func(r *http.Request, operation string, params map[string]string, query string, body []byte) *Response

// Response is what an operation returned.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Stale  bool // it may be older than what was acknowledged at other nodes of the cluster
}

// Console serves the pages.
type Console struct {
	call     Call
	paths    func(operation string) string
	log      *slog.Logger
	pages    []*page
	segments int // of the longest path
	views    *templates
	uploads  uploads
	sealer   sealer

	load    sync.Once // sets the fields below: a service whose console is not used need not read them
	loadErr error
	assets  *assets
	words   *catalogue
}

// New returns the console. paths returns the path of an operation, with parameters as {name}, and ""
// for one that does not exist. New fails on a page that is incomplete, contradicts another or calls an
// operation that does not exist.
func New(call Call, paths func(operation string) string, log *slog.Logger) (*Console, error) {
	c := &Console{call: call, paths: paths, log: log, pages: pages(), sealer: newSealer()}
	c.views = newTemplates(c)
	for i, p := range c.pages {
		if err := p.prepare(paths); err != nil {
			return nil, fmt.Errorf("page %s: %w", p.name, err)
		}
		c.segments = max(c.segments, len(p.segments))
		for _, other := range c.pages[:i] {
			if other.path == p.path || other.name == p.name {
				return nil, fmt.Errorf("pages %s and %s have the same path or name", other.name, p.name)
			}
		}
	}
	return c, nil
}

// loadFiles reads the texts and the assets, which are part of the program.
func (c *Console) loadFiles() {
	c.load.Do(func() {
		var err error
		c.words, c.loadErr = embeddedCatalogue()
		c.assets, err = embeddedAssets()
		c.loadErr = errors.Join(c.loadErr, err)
	})
}

// The files are the same for every console of the process.
var (
	embeddedCatalogue = sync.OnceValues(loadCatalogue)
	embeddedAssets    = sync.OnceValues(loadAssets)
)

// policy is the Content-Security-Policy of every page: parts of this service only, no
// inline script or style, and HTML for scripts only through the one Trusted Types
// policy of static/main.js.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types signalbox"

// ServeHTTP serves a page, the form of a page, or an asset.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if c.loadFiles(); c.loadErr != nil {
		c.fail(w, r, c.loadErr)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, Path+"/static/"); ok {
		c.assets.serve(w, r, name)
		return
	}
	h.Set("Vary", "X-Fragment, Cookie, Accept-Language")
	if sentByOtherSite(r) {
		c.reload(w)
		return
	}
	if r.URL.Path == Path+"/" {
		h["Location"] = []string{".." + Path} // http.Redirect makes it absolute
		w.WriteHeader(http.StatusFound)
		return
	}
	segments := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	for _, p := range c.pages {
		if params, ok := p.match(segments); ok {
			c.servePage(w, r, p, params)
			return
		}
	}
	if len(segments) > c.segments { // a template of each depth is kept
		http.Error(w, "there is no page at this address", http.StatusNotFound)
		return
	}
	c.servePage(w, r, notFoundPage, nil)
}

// fail answers a request that a fault of the program prevents, and logs it.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	c.log.ErrorContext(r.Context(), "a page of the console cannot be shown", "path", r.URL.Path, "error", err)
	http.Error(w, "this page cannot be shown; the log of the service has the cause", http.StatusInternalServerError)
}

// sentByOtherSite reports whether a link of another site led here without the session's
// cookie, which is sent with requests of this site only (SameSite=Strict).
func sentByOtherSite(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Cookie") == ""
}

// reload has the browser request the same page again, now as this site, with its cookie.
func (c *Console) reload(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Refresh", "0")
	fmt.Fprint(w, "<!DOCTYPE html><html lang=\"en\"><title>signalbox</title>")
}

// Paths returns the paths of all pages, with parameters as {name}.
func (c *Console) Paths() []string {
	paths := make([]string, 0, len(c.pages))
	for _, p := range c.pages {
		paths = append(paths, p.path)
	}
	return paths
}

// Calls returns the operations that pages call.
func (c *Console) Calls() map[string]bool {
	all := map[string]bool{}
	for _, p := range c.pages {
		for _, operation := range p.calls {
			all[operation] = true
		}
	}
	return all
}
