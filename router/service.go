package router

import (
	"context"
	"fmt"
	"net/http"

	"signalbox/handlers"
)

// noParts is a request that consists of its path alone.
type noParts struct{}

// Health tells that the process is up, or that it can do its work.
type Health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version"`
}

// getHealth answers as long as the process does.
func (rt *router) getHealth(context.Context, *noParts) (Health, error) {
	return Health{Status: "ok", Version: rt.version}, nil
}

// getReadiness answers 503 while the service cannot do its work. Anyone may
// ask, so the reason is for the log only.
func (rt *router) getReadiness(ctx context.Context, _ *noParts) (Health, error) {
	if err := rt.ready(ctx); err != nil {
		return Health{}, &handlers.Error{Status: http.StatusServiceUnavailable, Code: handlers.CodeInternalError,
			Message: "the service is not ready; its log holds the reason", Cause: fmt.Errorf("readiness: %w", err)}
	}
	return Health{Status: "ok", Version: rt.version}, nil
}
