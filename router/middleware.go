package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"signalbox/broker/panics"
	"signalbox/handlers"
)

// responseRecorder is a ResponseWriter that records what was written, for the access log and for
// recovery.
type responseRecorder struct {
	http.ResponseWriter
	status int // 0 until the header is sent
	bytes  int64
}

// WriteHeader records the status.
func (a *responseRecorder) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK { // the others come before that of the response
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write counts the bytes.
func (a *responseRecorder) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *responseRecorder) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ServeHTTP is the outermost handler: it adds a request id and the headers of every
// response, recovers from panics, and writes one line to the access log.
func (rt *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := rt.now()
	x := &requestInfo{id: requestID(r)}
	r = r.WithContext(context.WithValue(r.Context(), requestInfoKey{}, x))
	out := &responseRecorder{ResponseWriter: w}
	setHeaders(w.Header(), x.id)
	if len(r.TransferEncoding) > 0 {
		// A Content-Length beside it, which net/http drops, may hide another request [RFC 9112, 6.3].
		w.Header().Set("Connection", "close")
	}
	aborted := true // unless serveSafely returns
	defer func() {
		rt.observe(r, x, out, start, aborted)
	}()
	rt.serveSafely(out, r, x)
	aborted = false
}

func setHeaders(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	for name, value := range responseHeaders {
		h.Set(name, value)
	}
}

// responseHeaders are the headers of every response except X-Request-Id.
var responseHeaders = map[string]string{
	"X-Content-Type-Options":  "nosniff",
	"X-Frame-Options":         "DENY",
	"Referrer-Policy":         "no-referrer",
	"Cache-Control":           "no-store",
	"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

// serveSafely turns a panic into an error response. On http.ErrAbortHandler, and on a
// panic after the header was sent, it aborts the connection instead: the caller must
// see that the response is incomplete.
func (rt *router) serveSafely(w *responseRecorder, r *http.Request, x *requestInfo) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		panics.Log(r.Context(), rt.log, "a request could not be handled", fmt.Sprint(v),
			slog.String("op", x.op), slog.String("request_id", x.id))
		if w.status != 0 {
			panic(http.ErrAbortHandler)
		}
		e := *handlers.ErrorFor(errors.New("panic"))
		e.Info = map[string]any{"requestId": x.id}
		writeError(w, &e)
	}()
	rt.mux.ServeHTTP(w, markEscapedSlashes(r))
}

// observe writes the access log and updates the metrics. The name of an object is logged with
// changes and slow requests only, the query never: polling would fill the log with names of
// clients. A stream of events lasts as long as its caller wants, so its metric is the time until
// it began.
func (rt *router) observe(r *http.Request, x *requestInfo, w *responseRecorder, start time.Time, aborted bool) {
	took := rt.now().Sub(start)
	if rt.proxies.cameThrough(r) {
		rt.metrics.unknown.Add(1)
	}
	measured := took
	if !x.streaming.IsZero() {
		measured = x.streaming.Sub(start)
	}
	rt.metrics.observe(x.op, w.status, measured)
	slow := rt.cfg.SlowRequest > 0 && measured >= rt.cfg.SlowRequest
	level := slog.LevelInfo
	switch {
	case slow:
		level = slog.LevelWarn
	case x.quiet && w.status < http.StatusInternalServerError:
		level = slog.LevelDebug
	}
	if !rt.log.Enabled(r.Context(), level) {
		return
	}
	attrs := append([]slog.Attr{
		slog.String("op", x.op), slog.String("method", r.Method), slog.Int("status", w.status),
		slog.Duration("duration", took), slog.Int64("bytes", w.bytes), slog.String("request_id", x.id),
		slog.String("address", rt.proxies.address(r).String()),
	}, x.logged(slow)...)
	if slow {
		attrs = append(attrs, slog.Bool("slow", true))
	}
	if aborted {
		attrs = append(attrs, slog.Bool("aborted", true))
	}
	rt.log.LogAttrs(r.Context(), level, "request", attrs...)
}

// logged returns who called, and what the request is about as far as it is logged.
func (x *requestInfo) logged(slow bool) (attrs []slog.Attr) {
	if p := x.principal; p != nil {
		attrs = append(attrs, slog.String("caller", p.Kind+":"+p.ID))
	}
	if x.project != "" {
		attrs = append(attrs, slog.String("project", x.project))
	}
	if x.broker != "" {
		attrs = append(attrs, slog.String("broker", x.broker))
	}
	if x.object != "" && (x.changes || slow) {
		attrs = append(attrs, slog.String("object", shortened(x.object)))
	}
	return attrs
}

// maxLoggedName bounds the length of a name in the access log, in bytes.
const maxLoggedName = 256

func shortened(name string) string {
	if len(name) <= maxLoggedName {
		return name
	}
	return strings.ToValidUTF8(name[:maxLoggedName], "") + "…"
}
