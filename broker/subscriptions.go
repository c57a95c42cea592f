package broker

import "context"

// Subscriptions shows who is subscribed to what.
type Subscriptions interface {
	// ListSubscriptions gives the subscriptions of all sessions, or of one
	// client where ClientID is set, in order of client ids and then of topics.
	ListSubscriptions(ctx context.Context, o SubscriptionOptions) (Page[Subscription], error)
}

// SubscriptionOptions selects a part of the subscriptions. An empty ClientID
// means those of all clients.
type SubscriptionOptions struct {
	ListOptions[Subscription]
	ClientID string
}

// Subscription is a subscription of a session. Topic is the filter as it was
// asked for; Share is the name of the group where it is shared, and
// SubscriptionIdentifier is 0 where there is none.
type Subscription struct {
	ClientID               string `json:"clientid"`
	Username               string `json:"username"`
	Topic                  string `json:"topic"`
	QoS                    int    `json:"qos"`
	NoLocal                bool   `json:"noLocal"`
	RetainAsPublished      bool   `json:"retainAsPublished"`
	RetainHandling         int    `json:"retainHandling"`
	SubscriptionIdentifier uint32 `json:"subscriptionIdentifier,omitempty"`
	Share                  string `json:"share,omitempty"`
}
