// Package router contains everything that knows net/http: the table of operations, the
// processing of a request (authenticate, authorise, bind, call, encode), the OpenAPI
// document written from the same table, the metrics and the server.
//
// It must not import a database driver, SQL, an MQTT library or a kind of broker:
// package handlers implements the operations.
package router

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"

	"signalbox/handlers"
	"signalbox/handlers/auth"
	"signalbox/router/manual"
)

// router serves the requests of the API. It is immutable once built, but for the OpenAPI
// document, which is written when it is asked for first.
type router struct {
	api     *handlers.API
	auth    *auth.Auth
	cfg     Config
	proxies proxies
	log     *slog.Logger
	now     func() time.Time
	ready   func(context.Context) error
	version string
	times   eventTimes

	stopping <-chan struct{} // closed when the server begins to stop

	forwarder *httputil.ReverseProxy

	rows     []*route
	mux      *httprouter.Router
	metrics  *metrics
	manual   *manual.Manual
	document func() ([]byte, error) // OpenAPI
}

// build completes the table and registers it with httprouter. It fails on a row that is
// incomplete or contradicts another.
func (rt *router) build() error {
	types := shapes{}
	for _, row := range rt.rows {
		if err := row.prepare(types); err != nil {
			return err
		}
	}
	if err := rt.checkBefore(); err != nil {
		return err
	}
	groups, err := overlays(rt.rows)
	if err != nil {
		return err
	}
	rt.document = sync.OnceValues(func() ([]byte, error) {
		document, _, err := rt.writeOpenAPI(types)
		return document, err
	})
	rt.mux = &httprouter.Router{NotFound: http.HandlerFunc(rt.noRow)}
	for _, o := range groups {
		rt.register(o)
	}
	return nil
}

// register registers an overlay; HEAD is served as GET.
func (rt *router) register(o *overlay) {
	handle := func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		row := o.pick(r.URL.Path)
		if row == nil {
			rt.noRow(w, r)
			return
		}
		rt.serve(w, r, row, params)
	}
	rt.mux.Handle(o.method, o.pattern, handle)
	if o.method == http.MethodGet {
		rt.mux.Handle(http.MethodHead, o.pattern, handle)
	}
}

// serve processes a request for a row.
func (rt *router) serve(w http.ResponseWriter, r *http.Request, row *route, params httprouter.Params) {
	x := infoOf(r.Context())
	x.op, x.quiet = row.ID, row.isQuiet(r)
	x.project, x.broker = logID(params.ByName("projectId")), logID(params.ByName("brokerId"))
	ctx, err := rt.admit(w, r, row, params)
	audited := rt.audited(row, params)
	x.object, x.changes = audited.object(), audited.changes()
	if err != nil {
		audited.end(r.Context(), r, err)
		rt.refuse(w, r, row, err)
		return
	}
	if row.Serve != nil {
		row.Serve.ServeHTTP(w, r)
		return
	}
	allowTime(w, row)
	if done, err := rt.forward(w, r, row, params); done || err != nil {
		if err != nil {
			audited.end(r.Context(), r, err)
			rt.refuse(w, r, row, err)
		}
		return
	}
	answer, err := rt.call(ctx, w, r, row, audited)
	audited.end(ctx, r, err)
	if events, ok := answer.(eventStream); ok && err == nil {
		x.streaming = rt.now()
		rt.respondEvents(w, r, events, func() error { _, err := rt.admit(w, r, row, params); return err })
		return
	}
	if err == nil {
		err = rt.respond(w, r, row, answer)
	}
	if err != nil {
		rt.refuse(w, r, row, err)
	}
}

// isQuiet reports whether a request is logged at level debug only: those of machines and
// of browsers that show a page.
func (row *route) isQuiet(r *http.Request) bool {
	return row.Serve != nil || !row.writes() && (row.Role == auth.Public || r.Context().Value(inProcessKey{}) != nil)
}

// logID truncates a caller's text in the place of an id.
func logID(s string) string { return s[:min(len(s), maxRequestID)] }

// largeTransfer bounds the time for a large body, its processing and its response.
const largeTransfer = 10 * time.Minute

// allowTime allows an operation with large bodies more time than the server's default.
func allowTime(w http.ResponseWriter, row *route) {
	if !row.Large {
		return
	}
	deadline := time.Now().Add(largeTransfer)
	c := http.NewResponseController(w)
	c.SetReadDeadline(deadline)  //nolint:errcheck // a connection without deadlines needs none
	c.SetWriteDeadline(deadline) //nolint:errcheck // as above
}

// noRow responds if no row has method and path: OPTIONS returns the allowed methods, a
// path with other methods is 405, the rest 404.
func (rt *router) noRow(w http.ResponseWriter, r *http.Request) {
	allowed := rt.allowed(r.URL.Path)
	switch {
	case len(allowed) == 0:
		writeError(w, &handlers.Error{Status: http.StatusNotFound, Code: handlers.CodeNotFound,
			Message: "there is nothing at this path; /api/openapi.json lists what there is"})
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeError(w, &handlers.Error{Status: http.StatusMethodNotAllowed, Code: handlers.CodeMethodNotAllowed,
			Message: fmt.Sprintf("this path does not take this method; it takes %s", strings.Join(allowed, ", "))})
	}
}

// allowed returns the methods of a path, none if it does not exist.
func (rt *router) allowed(path string) []string {
	var methods []string
	for _, row := range rt.rows {
		if row.matches(path) {
			methods = append(methods, row.Method)
		}
	}
	if methods == nil {
		return nil
	}
	if slices.Contains(methods, http.MethodGet) {
		methods = append(methods, http.MethodHead)
	}
	methods = append(methods, http.MethodOptions)
	slices.Sort(methods)
	return slices.Compact(methods)
}
