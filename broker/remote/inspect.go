package remote

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/pages"
)

// InspectClients gives a part of the clients, fetched as it is read.
func (b *Broker) InspectClients(ctx context.Context, offset, count int) (broker.Page[broker.ConnectedClient], error) {
	return pages.List(ctx, pages.Source[broker.ConnectedClient]{
		Name: func(c broker.ConnectedClient) string { return c.ClientID },
		Fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.ConnectedClient, error) {
			var l control.Clients
			err := b.ask(ctx, broker.CapInspect, control.InspectTopic, control.ListClients(verbose, count, offset), &l)
			return l.Total, l.Clients, err
		},
	}, broker.ListOptions[broker.ConnectedClient]{Offset: offset, Count: count})
}

// InspectClient gives everything that the broker tells of one client.
func (b *Broker) InspectClient(ctx context.Context, clientID string) (broker.ConnectedClientDetail, error) {
	var c control.Client
	err := b.ask(ctx, broker.CapInspect, control.InspectTopic, control.GetClient(clientID), &c)
	return c.ConnectedClientDetail, err
}

// DisconnectClient ends a client's connection.
func (b *Broker) DisconnectClient(ctx context.Context, clientID string) error {
	return b.steer(ctx, control.DisconnectClient(clientID))
}

// SubscribeClient subscribes a client in its place.
func (b *Broker) SubscribeClient(ctx context.Context, clientID string, s broker.SubscriptionSpec) error {
	return b.steer(ctx, control.SubscribeClient(clientID, s))
}

// UnsubscribeClient ends a client's subscription in its place.
func (b *Broker) UnsubscribeClient(ctx context.Context, clientID, topic string) error {
	return b.steer(ctx, control.UnsubscribeClient(clientID, topic))
}

// steer has a command of client control done.
func (b *Broker) steer(ctx context.Context, c control.Command) error {
	return b.ask(ctx, broker.CapClientControl, control.ClientControlTopic, c, nil)
}
