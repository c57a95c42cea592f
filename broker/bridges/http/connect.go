package http

import (
	"context"
	"net"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/reach"
)

// checkEvery is how long a server is believed to be there after it was.
const checkEvery = 30 * time.Second

// Connect tells whether there is a server that a connection can be made to, and
// that it is the right one where there is TLS. No request is sent: any could do
// something.
func (c *connector) Connect(ctx context.Context) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return reach.Explained(err, c.explain(err))
	}
	_ = conn.Close()
	c.reached.note(c.now())
	return nil
}

// Check does as Connect where the server was not there lately.
func (c *connector) Check(ctx context.Context) error {
	if c.reached.within(c.now(), checkEvery) {
		return nil
	}
	if err := c.Connect(ctx); err != nil {
		return &bridges.Lost{Err: err}
	}
	return nil
}

// Close ends the connections.
func (c *connector) Close(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

func (c *connector) dial(ctx context.Context) (net.Conn, error) {
	return reach.Dial(ctx, c.open, c.tls, "tcp", c.address())
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

// explain gives the sentence for an error of a connection.
func (c *connector) explain(err error) string {
	return c.address() + " cannot be reached: " + c.scrub.Replace(reach.Cause(err))
}
