package remote

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/control"
)

// InspectClients gives a part of the clients, fetched as it is read.
func (b *Broker) InspectClients(ctx context.Context, offset, count int) (broker.Page[broker.ConnectedClient], error) {
	return list(ctx, source[broker.ConnectedClient]{
		name: func(c broker.ConnectedClient) string { return c.ClientID },
		fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.ConnectedClient, error) {
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

// ListTopics gives the topic tree that the broker keeps: one, of the node that
// this connection leads to.
func (b *Broker) ListTopics(ctx context.Context, _, offset, count int) ([]broker.TopicTree, error) {
	var t control.Topics
	if err := b.ask(ctx, broker.CapTopicTree, control.TopicTreeTopic, control.ListTopics(count, offset), &t); err != nil {
		return nil, err
	}
	return []broker.TopicTree{t.TopicTree}, nil
}

// GetTTL gives after how many seconds a topic leaves the tree.
func (b *Broker) GetTTL(ctx context.Context, _ int) ([]int64, error) {
	var t control.TTL
	if err := b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.GetTTL(), &t); err != nil {
		return nil, err
	}
	return []int64{t.TTL}, nil
}

// SetTTL changes after how many seconds a topic leaves the tree.
func (b *Broker) SetTTL(ctx context.Context, _ int, seconds int64) error {
	return b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.SetTTL(seconds), nil)
}
