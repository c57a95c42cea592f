package remote

import (
	"context"

	"signalbox/broker"
)

// unsupported returns the error of an operation without an MQTT request.
func unsupported(op string, feature broker.Capability) error {
	return (&offer{}).missing(feature).Error(op)
}

// ListSubscriptions is Unsupported.
func (b *Broker) ListSubscriptions(context.Context, broker.SubscriptionOptions) (broker.Page[broker.Subscription], error) {
	return broker.Page[broker.Subscription]{}, unsupported("listSubscriptions", broker.CapSubscriptions)
}

// ListDenials is Unsupported.
func (b *Broker) ListDenials(context.Context, int, int) (broker.Page[broker.Denial], error) {
	return broker.Page[broker.Denial]{}, unsupported("listDenials", broker.CapDenials)
}

// ListBans is Unsupported.
func (b *Broker) ListBans(context.Context, int, int) (broker.Page[broker.Ban], error) {
	return broker.Page[broker.Ban]{}, unsupported("listBans", broker.CapBans)
}

// AddBan is Unsupported.
func (b *Broker) AddBan(context.Context, broker.BanSpec) error {
	return unsupported("addBan", broker.CapBans)
}

// DeleteBan is Unsupported.
func (b *Broker) DeleteBan(context.Context, broker.BanKind, string) error {
	return unsupported("deleteBan", broker.CapBans)
}

// ForgetClient is Unsupported.
func (b *Broker) ForgetClient(context.Context, string) error {
	return &broker.Error{Kind: broker.Unsupported, Op: "forgetClient", Feature: broker.CapClientControl,
		Msg: "no control topic ends a session: have the client connect with a clean session"}
}
