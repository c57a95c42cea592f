package router

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"signalbox/handlers"
)

// The paths of what programs ask that watch the service.
const (
	pathHealth    = "/healthz"
	pathReadiness = "/readyz"
)

// startingRetry is when a caller should try again.
const startingRetry = 5 * time.Second

// errStarting is the response to requests while there is no API.
var errStarting = &handlers.Error{Status: http.StatusServiceUnavailable, Code: handlers.CodeBrokerUnavailable, RetryAfter: startingRetry,
	Message: "this node of a cluster was upgraded, and other nodes run an earlier release, which keeps the data of the platform in another form: " +
		"use one of those until all run the new release; the broker of this node serves its clients"}

// serveStarting responds to requests while there is no API: whether the service runs, and whether it is
// ready.
func (rt *router) serveStarting(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), requestID(r))
	var health Health
	var err error = errStarting
	switch r.URL.Path {
	case pathHealth:
		health, err = rt.getHealth(r.Context(), nil)
	case pathReadiness:
		health, err = rt.getReadiness(r.Context(), nil)
	}
	var body bytes.Buffer
	if err == nil {
		err = encode(&body, health)
	}
	switch e := handlers.ErrorFor(err); {
	case err == nil:
		writeBody(w, http.StatusOK, "application/json", body.Bytes())
	case strings.Contains(r.Header.Get("Accept"), "text/html"): // a browser
		w.Header().Set("Refresh", "5")
		writeBody(w, e.Status, "text/plain; charset=utf-8", []byte(e.Message+"\n"))
	default:
		writeError(w, e)
	}
}
