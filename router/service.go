package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"signalbox/broker"
	"signalbox/handlers"
)

// noParts is a request that consists of its path alone.
type noParts struct{}

// Health is the state of the process or of the service.
type Health struct {
	Status  string `json:"status" enum:"ok" doc:"Always ok: a service that is not is answered with 503."`
	Version string `json:"version" doc:"Version of the service." example:"1.0.0"`
}

// getHealth succeeds as long as the process runs.
func (rt *router) getHealth(context.Context, *noParts) (Health, error) {
	return Health{Status: "ok", Version: rt.version}, nil
}

// getReadiness returns 503 while the service is not ready. It is public; so the message
// of a broker is shown, which is meant for every caller, and any other reason is only
// logged.
func (rt *router) getReadiness(ctx context.Context, _ *noParts) (Health, error) {
	if err := rt.ready(ctx); err != nil {
		message := "the service is not ready; its log holds the reason"
		if told, ok := errors.AsType[*broker.Error](err); ok {
			message = "the service is not ready: " + told.Msg
		}
		return Health{}, &handlers.Error{Status: http.StatusServiceUnavailable, Code: handlers.CodeInternalError,
			Message: message, Cause: fmt.Errorf("readiness: %w", err)}
	}
	return Health{Status: "ok", Version: rt.version}, nil
}
