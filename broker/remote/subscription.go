package remote

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
)

// allTopicsSubscriber subscribes for topictree on a connection of its own. On the session's
// connection, responses would queue behind everything that is published.
type allTopicsSubscriber struct{ b *Broker }

// Subscribe opens a connection if there is a session, and subscribes. Its error is a
// [*broker.Error].
func (e allTopicsSubscriber) Subscribe(ctx context.Context, filter string, deliver func(topic string, payload []byte, qos byte, retain bool)) (broker.Feed, error) {
	return e.b.subscribe(ctx, []string{filter}, func(m messaging.Message) { deliver(m.Topic, m.Payload, m.QoS, m.Retain) })
}

// subscribe opens a connection if there is a session, and subscribes to filters that do not
// overlap. The bytes of a message are valid until take returns.
func (b *Broker) subscribe(ctx context.Context, filters []string, take func(messaging.Message)) (broker.Feed, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timing.responseTimeout)
	defer cancel()
	if _, err := b.link.current(ctx); err != nil {
		return nil, b.unavailable(opListTopics, err)
	}
	f, err := b.receiver.Listen(ctx, clientID(), filters, take)
	if err != nil {
		return nil, b.subscribeError(err)
	}
	return f, nil
}

// subscribeError explains why nothing can be received.
func (b *Broker) subscribeError(err error) error {
	e := &broker.Error{Kind: broker.Unavailable, Op: opListTopics, Msg: "a second connection to the broker, to receive what is published, failed", Err: err}
	known, explained := errors.AsType[*broker.Error](err)
	unreached, opening := errors.AsType[*failure](err)
	denied, refused := errors.AsType[*client.SubscriptionDeniedError](err)
	switch {
	case explained:
		return b.unavailable(opListTopics, known)
	case opening:
		return b.unavailable(opListTopics, b.explain(unreached))
	case refused:
		e.Kind, e.Msg = broker.Denied, fmt.Sprintf("the broker keeps no topic tree, and does not let the connection's user subscribe to %q to make one", denied.Filter)
	}
	return e
}
