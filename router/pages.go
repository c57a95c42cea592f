package router

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"signalbox/handlers"
	"signalbox/router/console"
)

// newConsole returns the console, whose pages call the operations of the table.
func (rt *router) newConsole() (*console.Console, error) {
	paths := func(operation string) string {
		if row := rt.rowOf(operation); row != nil {
			return row.Path
		}
		return ""
	}
	return console.New(rt.perform, paths, rt.log)
}

func (rt *router) rowOf(operation string) *route {
	if i := slices.IndexFunc(rt.rows, func(row *route) bool { return row.ID == operation }); i >= 0 {
		return rt.rows[i]
	}
	return nil
}

// registerConsole serves the console and leads / to it.
func (rt *router) registerConsole() error {
	c, err := rt.newConsole()
	if err != nil {
		return err
	}
	page := func(w http.ResponseWriter, r *http.Request) {
		x := infoOf(r.Context())
		x.op, x.quiet = "console", true
		if err := refuseCrossSite(r); err != nil {
			writeError(w, handlers.ErrorFor(err))
			return
		}
		c.ServeHTTP(w, r)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		rt.mux.HandlerFunc(method, console.Path, page)
		rt.mux.HandlerFunc(method, console.Path+"/*path", page)
	}
	toConsole := func(w http.ResponseWriter, r *http.Request) {
		infoOf(r.Context()).quiet = true
		w.Header()["Location"] = []string{strings.TrimPrefix(console.Path, "/")} // http.Redirect makes it absolute
		w.WriteHeader(http.StatusFound)
	}
	rt.mux.HandlerFunc(http.MethodGet, "/", toConsole)
	rt.mux.HandlerFunc(http.MethodHead, "/", toConsole)
	return nil
}

// perform performs an operation in process for a page: the request goes the whole way of
// one that comes over HTTP, with the browser's headers, so that its role, its binding and
// its errors are the same, and it is logged and counted.
func (rt *router) perform(r *http.Request, operation string, params map[string]string, query string, body []byte) *console.Response {
	row := rt.rowOf(operation)
	if row == nil { // a fault of the page
		rt.log.ErrorContext(r.Context(), "a page calls an operation that does not exist", "op", operation)
		return &console.Response{Status: http.StatusInternalServerError, Header: http.Header{}}
	}
	path := row.pathWith(params)
	if slices.ContainsFunc(row.preferred, func(other *route) bool { return other.matches(path) }) {
		return &console.Response{Status: http.StatusNotFound, Header: http.Header{}, Body: []byte(`{"code":"NOT_FOUND","message":"nothing has this name"}`)}
	}
	inner := r.Clone(context.WithValue(r.Context(), inProcessKey{}, infoOf(r.Context())))
	inner.Method, inner.Body, inner.ContentLength = row.Method, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	inner.URL = &url.URL{Path: path, RawQuery: query}
	inner.TransferEncoding, inner.Form, inner.PostForm, inner.MultipartForm = nil, nil, nil, nil
	for _, name := range []string{"Content-Type", "Content-Length", "Accept-Encoding", "X-Fragment"} {
		inner.Header.Del(name)
	}
	inner.Header.Set("X-Request-Id", infoOf(r.Context()).id)
	out := &inProcess{header: http.Header{}, status: http.StatusOK}
	out.serve(rt, inner)
	return &console.Response{Status: out.status, Header: out.header, Body: out.body.Bytes(), Stale: out.header.Get(staleHeader) != ""}
}

// pathWith returns the row's path with its parameters.
func (row *route) pathWith(params map[string]string) string {
	var b strings.Builder
	for _, s := range row.segments {
		b.WriteByte('/')
		if name, ok := strings.CutPrefix(s, ":"); ok {
			s = strings.ReplaceAll(params[name], "/", innerSlash)
		}
		b.WriteString(s)
	}
	return b.String()
}

// inProcessKey marks the context of a request in process, with the requestInfo of the page: a page that
// only reads is logged at level debug, like the page itself.
type inProcessKey struct{}

// inProcess is the response to a request in process.
type inProcess struct {
	header http.Header
	status int
	sent   bool
	body   bytes.Buffer
}

// serve serves a request. A response that the router aborts becomes an error: its page
// runs on, and the call may be on a goroutine of its own.
func (p *inProcess) serve(rt *router, r *http.Request) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // the value that net/http compares
			panic(v)
		} else if v != nil {
			p.status = http.StatusInternalServerError
			p.body.Reset()
		}
	}()
	rt.ServeHTTP(p, r)
}

// Header returns the header of the response.
func (p *inProcess) Header() http.Header { return p.header }

// WriteHeader sets the status of the response.
func (p *inProcess) WriteHeader(status int) {
	if !p.sent {
		p.status, p.sent = status, true
	}
}

// Write appends to the body of the response.
func (p *inProcess) Write(b []byte) (int, error) {
	p.sent = true
	return p.body.Write(b)
}
