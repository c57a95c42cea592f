package broker

import "context"

// Subscriptions lists the subscriptions of clients.
type Subscriptions interface {
	// ListSubscriptions returns the subscriptions of all sessions, or of one client if
	// ClientID is set, ordered by client id and then by topic.
	ListSubscriptions(ctx context.Context, o SubscriptionOptions) (Page[Subscription], error)
}

// SubscriptionOptions selects a page of the subscriptions. An empty ClientID means
// those of all clients.
type SubscriptionOptions struct {
	ListOptions[Subscription]
	ClientID string
}

// Subscription is a subscription of a session. Topic is the filter as it was requested;
// Share is the name of the group if it is shared, and SubscriptionIdentifier is 0 if
// there is none.
type Subscription struct {
	ClientID               string `json:"clientid" doc:"MQTT client id." example:"meter-7"`
	Username               string `json:"username" doc:"Username of the client; empty for none." example:"meter-7"`
	Topic                  string `json:"topic" doc:"Topic filter, as it was subscribed to." example:"alarms/+"`
	QoS                    int    `json:"qos" doc:"Highest QoS with which messages are delivered, 0 to 2." example:"1"`
	NoLocal                bool   `json:"noLocal" doc:"True if the client is not sent what it publishes itself." example:"false"`
	RetainAsPublished      bool   `json:"retainAsPublished" doc:"True if messages are sent with the RETAIN flag with which they were published." example:"false"`
	RetainHandling         int    `json:"retainHandling" doc:"MQTT 5 Retain Handling: 0 sends retained messages when subscribing, 1 only for a new subscription, 2 never." example:"0"`
	SubscriptionIdentifier uint32 `json:"subscriptionIdentifier,omitempty" doc:"MQTT 5 subscription identifier; absent for none." example:"-"`
	Share                  string `json:"share,omitempty" doc:"Name of the group of a shared subscription; absent for any other." example:"-"`
}
