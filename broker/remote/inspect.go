package remote

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/pages"
)

// InspectClients returns a page of the clients, fetched while it is read. There is no command
// for rates, so they are absent.
func (b *Broker) InspectClients(ctx context.Context, offset, count int, _ bool) (broker.Page[broker.ConnectedClient], error) {
	return pages.List(ctx, pages.Source[broker.ConnectedClient]{
		Name: func(c broker.ConnectedClient) string { return c.ClientID },
		Fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.ConnectedClient, error) {
			var l control.Clients
			err := b.ask(ctx, broker.CapInspect, control.InspectTopic, control.ListClients(verbose, count, offset), &l)
			return l.Total, l.Clients, err
		},
	}, broker.ListOptions[broker.ConnectedClient]{Offset: offset, Count: count})
}

// InspectClient returns all details of a client.
func (b *Broker) InspectClient(ctx context.Context, clientID string) (broker.ConnectedClientDetail, error) {
	var c control.Client
	err := b.ask(ctx, broker.CapInspect, control.InspectTopic, control.GetClient(clientID), &c)
	return c.ConnectedClientDetail, err
}

// DisconnectClient disconnects a client.
func (b *Broker) DisconnectClient(ctx context.Context, clientID string) error {
	return b.sendClientCommand(ctx, control.DisconnectClient(clientID))
}

// SubscribeClient subscribes on behalf of a client.
func (b *Broker) SubscribeClient(ctx context.Context, clientID string, s broker.SubscriptionSpec) error {
	return b.sendClientCommand(ctx, control.SubscribeClient(clientID, s))
}

// UnsubscribeClient unsubscribes on behalf of a client.
func (b *Broker) UnsubscribeClient(ctx context.Context, clientID, topic string) error {
	return b.sendClientCommand(ctx, control.UnsubscribeClient(clientID, topic))
}

// sendClientCommand sends a command of client control.
func (b *Broker) sendClientCommand(ctx context.Context, c control.Command) error {
	return b.ask(ctx, broker.CapClientControl, control.ClientControlTopic, c, nil)
}
