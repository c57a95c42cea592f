package handlers

import (
	"context"

	"signalbox/broker"
)

// ListTopicValuesRequest asks for the numbers of topics over time.
type ListTopicValuesRequest struct {
	NodePath
	Topics []string `query:"topic" required:"true" doc:"Topic; up to 10 when it is repeated."`
}

// Validate checks the topics.
func (r *ListTopicValuesRequest) Validate() []FieldError { return checkTopics(r.Topics) }

// ListTopicValues returns the numbers of the messages of topics over time, and has them recorded
// from the first request on.
func (a *API) ListTopicValues(ctx context.Context, r *ListTopicValuesRequest) ([]broker.TopicValues, error) {
	b, err := a.topicsOf(ctx, &r.NodePath)
	if err != nil {
		return nil, err
	}
	return b.TopicValues(ctx, r.NodeID, r.Topics)
}
