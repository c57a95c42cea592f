package mqtt

import (
	"context"
	"errors"
	"net"

	"signalbox/broker/messaging"
)

// errNotServing is why a connection that takes messages is not made.
var errNotServing = errors.New("this broker does not serve clients at present, as another node of its cluster does: " +
	"the connection waits until it does")

// servingBroker returns the broker if the connection must exist only while that serves clients,
// otherwise nil. That applies to connections that receive messages: else each node of a cluster
// in mode full would collect them, and publish them again after a fail-over.
func (c *connector) servingBroker() messaging.StoringBroker {
	if b, ok := c.local.(messaging.StoringBroker); ok && len(c.inRoutes) > 0 && !c.trial {
		return b
	}
	return nil
}

// awaitServing waits until the connection may be made.
func (c *connector) awaitServing(ctx context.Context) error {
	if b := c.servingBroker(); b != nil {
		_, err := b.Serving(ctx)
		return err
	}
	return ctx.Err()
}

// closeWhenNotServing returns a connection that is closed when the broker stops serving.
func (c *connector) closeWhenNotServing(ctx context.Context, conn net.Conn) (net.Conn, error) {
	b := c.servingBroker()
	if b == nil {
		return conn, nil
	}
	serving, err := b.Serving(ctx)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &boundConn{conn, context.AfterFunc(serving, func() { conn.Close() })}, nil
}

// boundConn is a connection that closes with a context.
type boundConn struct {
	net.Conn
	stop func() bool
}

// Close closes the connection.
func (b *boundConn) Close() error {
	b.stop()
	return b.Conn.Close()
}
