package broker

import "context"

// ClientControl acts on a client's session on its behalf.
type ClientControl interface {
	// DisconnectClient ends a client's connection.
	DisconnectClient(ctx context.Context, clientID string) error
	// ForgetClient deletes a session with its subscriptions and queue, and closes its
	// client's connection if there is one.
	ForgetClient(ctx context.Context, clientID string) error
	// SubscribeClient subscribes a session as if its client had sent SUBSCRIBE. An
	// operator's subscription is not checked against the client's rights; the delivery
	// of messages is.
	SubscribeClient(ctx context.Context, clientID string, s SubscriptionSpec) error
	// UnsubscribeClient ends a subscription. One that does not exist is NotFound if the
	// broker reports it.
	UnsubscribeClient(ctx context.Context, clientID, topic string) error
}

// SubscriptionSpec is a wanted subscription [MQTT-3.8.3]. Topic is a filter, with
// $share/name/ if shared. SubscriptionIdentifier is 0 for none.
type SubscriptionSpec struct {
	Topic                  string
	QoS                    int
	SubscriptionIdentifier uint32
	NoLocal                bool
	RetainAsPublished      bool
	SendRetain             SendRetain
}

// SendRetain determines the retained messages that a new subscription receives.
type SendRetain string

// The values of SendRetain, in the order of MQTT's Retain Handling, 0 to 2. The empty
// one is SendAlways.
const (
	SendAlways SendRetain = "always"
	SendNew    SendRetain = "new" // only if the subscription did not exist
	SendNever  SendRetain = "never"
)
