package handlers

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/monitor"
)

// ListenMessagesRequest selects messages that will be published.
type ListenMessagesRequest struct {
	BrokerPath
	Filters []string `query:"filter" required:"true" doc:"Topic filter of the messages; up to 10 when it is repeated. The filter # does not match topics that begin with $."`
}

// maxFilters bounds the filters of a stream of messages.
const maxFilters = 10

// Validate checks the filters.
func (r *ListenMessagesRequest) Validate() []FieldError {
	if len(r.Filters) > maxFilters {
		return []FieldError{{"query.filter", fmt.Sprintf("must not be given more than %d times", maxFilters)}}
	}
	for _, filter := range r.Filters {
		if !isFilter(filter) {
			return []FieldError{{"query.filter", notAFilter}}
		}
	}
	return nil
}

// ListenMessages opens a stream of what is published. The caller must close it.
func (a *API) ListenMessages(ctx context.Context, r *ListenMessagesRequest) (*monitor.MessageStream, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return nil, err
	}
	s, err := a.Events.Listen(ctx, b, callerName(ctx), r.Filters, a.Now)
	return s, tooManyStreams(err)
}

// tooManyStreams converts the error of a caller that may not have one more stream.
func tooManyStreams(err error) error {
	switch {
	case errors.Is(err, monitor.ErrTooManyCallerStreams):
		return &Error{Status: 429, Code: CodeTooManyStreams, RetryAfter: retryStream, Cause: err,
			Message: "you have too many event streams open; close one, such as a page of the console, first"}
	case errors.Is(err, monitor.ErrTooManyStreams):
		return &Error{Status: 503, Code: CodeTooManyStreams, RetryAfter: retryStream, Cause: err,
			Message: "too many event streams are open; try again later"}
	}
	return err
}
