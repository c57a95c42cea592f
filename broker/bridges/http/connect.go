package http

import (
	"context"
	"net"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

// checkInterval is how long after its last response a server is assumed to be available.
const checkInterval = 30 * time.Second

// Connect opens and closes a connection, and verifies the certificate with TLS. It sends no
// request, because any request could have an effect.
func (c *connector) Connect(ctx context.Context) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return target.Explain(err, c.explain(err))
	}
	_ = conn.Close()
	c.lastContact.set(c.now())
	return nil
}

// Check does the same as Connect if the server did not respond lately.
func (c *connector) Check(ctx context.Context) error {
	if c.lastContact.within(c.now(), checkInterval) {
		return nil
	}
	if err := c.Connect(ctx); err != nil {
		return &bridges.Lost{Err: err}
	}
	return nil
}

// Close closes idle connections.
func (c *connector) Close(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

func (c *connector) dial(ctx context.Context) (net.Conn, error) {
	return target.Dial(ctx, c.dialer, c.tls, "tcp", c.address())
}

func (c *connector) address() string {
	port := c.base.Port()
	switch {
	case port != "":
	case c.base.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(c.base.Hostname(), port)
}

// explain returns the error text for a failed connection.
func (c *connector) explain(err error) string {
	return c.address() + " cannot be reached: " + c.redact.Replace(target.Reason(err))
}
