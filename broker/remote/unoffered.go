package remote

import (
	"context"

	"signalbox/broker"
)

// unoffered is the error of an operation for which MQTT has no request.
func unoffered(op string, feature broker.Capability) error {
	return (&offer{}).lack(feature).Error(op)
}

// ListSubscriptions is Unsupported.
func (b *Broker) ListSubscriptions(context.Context, broker.SubscriptionOptions) (broker.Page[broker.Subscription], error) {
	return broker.Page[broker.Subscription]{}, unoffered("listSubscriptions", broker.CapSubscriptions)
}

// ListDenials is Unsupported.
func (b *Broker) ListDenials(context.Context, int, int) (broker.Page[broker.Denial], error) {
	return broker.Page[broker.Denial]{}, unoffered("listDenials", broker.CapDenials)
}

// ListBans is Unsupported.
func (b *Broker) ListBans(context.Context, int, int) (broker.Page[broker.Ban], error) {
	return broker.Page[broker.Ban]{}, unoffered("listBans", broker.CapBans)
}

// AddBan is Unsupported.
func (b *Broker) AddBan(context.Context, broker.BanSpec) error {
	return unoffered("addBan", broker.CapBans)
}

// DeleteBan is Unsupported.
func (b *Broker) DeleteBan(context.Context, broker.BanKind, string) error {
	return unoffered("deleteBan", broker.CapBans)
}

// ForgetClient is Unsupported.
func (b *Broker) ForgetClient(context.Context, string) error {
	return &broker.Error{Kind: broker.Unsupported, Op: "forgetClient", Feature: broker.CapClientControl,
		Msg: "no control topic ends a session: have the client connect with a clean session"}
}
