package mqtt

import (
	"context"
	"errors"
	"net"

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

// awaitServing waits until the connection may be made.
func (c *connector) awaitServing(ctx context.Context) error {
	if b := c.servingBroker(); b != nil {
		_, err := b.Serving(ctx)
		return err
	}
	return ctx.Err()
}

// closeWhenNotServing returns a connection that is closed when this node takes no more messages.
func (c *connector) closeWhenNotServing(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if b := c.servingBroker(); b != nil {
		return messaging.CloseWhenNotServing(ctx, b, conn)
	}
	return conn, nil
}
