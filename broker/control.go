package broker

import "context"

// ClientControl acts on a client's session in its place.
type ClientControl interface {
	// DisconnectClient ends a client's connection.
	DisconnectClient(ctx context.Context, clientID string) error
	// ForgetClient ends a session, and its client's connection if there is one:
	// nothing is left of its subscriptions and of what waits for it.
	ForgetClient(ctx context.Context, clientID string) error
	// SubscribeClient subscribes a session as if its client had asked for it.
	// An operator's subscription is not held against the client's rights; what
	// is then delivered is.
	SubscribeClient(ctx context.Context, clientID string, s SubscriptionSpec) error
	// UnsubscribeClient ends a subscription. One that is not there is NotFound
	// where the broker reports it.
	UnsubscribeClient(ctx context.Context, clientID, topic string) error
}

// SubscriptionSpec is a wanted subscription [MQTT-3.8.3]. Topic is a filter,
// $share/name/ included where shared. SubscriptionIdentifier is 0 for none.
type SubscriptionSpec struct {
	Topic                  string
	QoS                    int
	SubscriptionIdentifier uint32
	NoLocal                bool
	RetainAsPublished      bool
	SendRetain             SendRetain
}

// SendRetain is which retained messages a new subscription is sent.
type SendRetain string

// The ways of SendRetain, in the order of MQTT's Retain Handling, 0 to 2. The
// empty one is SendAlways.
const (
	SendAlways SendRetain = "always"
	SendNew    SendRetain = "new" // only where the subscription was not there
	SendNever  SendRetain = "never"
)
