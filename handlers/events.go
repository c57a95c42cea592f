package handlers

import (
	"context"
	"slices"
	"strings"
	"time"

	"signalbox/broker/monitor"
	"signalbox/handlers/auth"
)

// StreamEventsRequest selects events of a broker.
type StreamEventsRequest struct {
	BrokerPath
	Types string `query:"types" default:"metrics,state" doc:"Types of the events, separated by commas: metrics, state, denials."`
}

func (r *StreamEventsRequest) types() []string { return strings.Split(r.Types, ",") }

// Validate checks the types.
func (r *StreamEventsRequest) Validate() []FieldError {
	for _, name := range r.types() {
		if !slices.Contains(monitor.EventTypes[:], name) {
			return []FieldError{{"query.types", "must be a list, separated by commas, of " + strings.Join(monitor.EventTypes[:], ", ")}}
		}
	}
	return nil
}

// retryStream is when a caller that has too many streams may try again.
const retryStream = 10 * time.Second

// StreamEvents opens a stream of events of a broker, which need not be connected. The caller
// must close it.
func (a *API) StreamEvents(ctx context.Context, r *StreamEventsRequest) (*monitor.Stream, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return nil, err
	}
	if slices.Contains(r.types(), monitor.Denials) { // which not every broker has
		if _, err := b.ListDenials(ctx, 0, 0); err != nil {
			return nil, err
		}
	}
	s, err := a.Events.Open(r.BrokerID, callerName(ctx), r.types())
	return s, tooManyStreams(err)
}

// callerName returns what a caller's streams and searches are counted by.
func callerName(ctx context.Context) string {
	p := auth.From(ctx)
	if p == nil {
		return ""
	}
	return p.Kind + ":" + p.ID
}
