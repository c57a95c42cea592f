package mqtt

import (
	"context"
	"errors"

	"signalbox/broker/messaging"
)

// errNotServing is why a connection is not made.
var errNotServing = errors.New("this node does not take the messages of the broker at present, as another node of its cluster does: " +
	"the connection waits until it does")

// servingBroker returns the broker if the connection must exist only while this node takes the messages of
// that, otherwise nil. That applies to connections that receive messages: else each node of a cluster
// would collect them, and publish them again after a fail-over. It applies to all connections of a broker
// that is not in this process, as all nodes have them with the same client ids.
func (c *connector) servingBroker() messaging.ServingBroker {
	b, ok := c.local.(messaging.ServingBroker)
	_, inProcess := b.(messaging.StoringBroker)
	if !ok || c.trial || inProcess && len(c.inRoutes) == 0 {
		return nil
	}
	return b
}

// serving waits until the connection may be made. The context that it returns ends when another node is to make it.
func (c *connector) serving(ctx context.Context) (context.Context, error) {
	if b := c.servingBroker(); b != nil {
		return b.Serving(ctx)
	}
	return context.Background(), ctx.Err()
}
