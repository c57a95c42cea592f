package remote

import (
	"context"
	"time"

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

// ListTopics gives the topic tree of the node that this connection leads to: the
// one that the broker keeps, otherwise one that is made of what it publishes from
// the first question on.
func (b *Broker) ListTopics(ctx context.Context, _, offset, count int) ([]broker.TopicTree, error) {
	var t control.Topics
	err := b.ask(ctx, broker.CapTopicTree, control.TopicTreeTopic, control.ListTopics(count, offset), &t)
	if b.lacksTree(err) {
		t.TopicTree, err = b.followed(ctx, offset, count)
	}
	if err != nil {
		return nil, err
	}
	return []broker.TopicTree{t.TopicTree}, nil
}

// lacksTree tells by the error of a request whether the broker keeps no topic
// tree.
func (b *Broker) lacksTree(err error) bool {
	return broker.KindOf(err) == broker.Unsupported && !b.link.offers(broker.CapTopicTree)
}

// GetTTL gives after how many seconds a topic leaves the tree.
func (b *Broker) GetTTL(ctx context.Context, _ int) ([]int64, error) {
	var t control.TTL
	err := b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.GetTTL(), &t)
	if b.lacksTree(err) {
		t.TTL, err = int64(b.tree.TTL()/time.Second), nil
	}
	if err != nil {
		return nil, err
	}
	return []int64{t.TTL}, nil
}

// SetTTL changes after how many seconds a topic leaves the tree. For a tree that
// the broker does not keep, it counts until the connection is closed.
func (b *Broker) SetTTL(ctx context.Context, _ int, seconds int64) error {
	err := b.ask(ctx, broker.CapTTL, control.TopicTreeTopic, control.SetTTL(seconds), nil)
	if b.lacksTree(err) {
		b.tree.SetTTL(time.Duration(min(seconds, maxTTL)) * time.Second)
		return nil
	}
	return err
}

// maxTTL is the longest TTL in seconds: ten years.
const maxTTL = 10 * 365 * 24 * 60 * 60
