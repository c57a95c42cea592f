package mqtttest

import (
	"context"
	"net"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// Conn is a connection for a load of many packets, whose failures the caller handles: what
// is sent is buffered, and packets are not decoded. It belongs to one goroutine.
type Conn struct {
	Out []byte // packets to be written by Flush

	conn      net.Conn
	in        *packet.Reader
	stopAfter func() bool
}

// Open connects, for at most that time; 0 for no limit. The end of ctx closes the connection.
func (c *Conn) Open(ctx context.Context, address string, timeout time.Duration) error {
	conn, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	c.conn, c.in = conn, packet.NewReader(conn, 16<<10)
	c.stopAfter = context.AfterFunc(ctx, func() { conn.Close() })
	return nil
}

// Close closes an open connection.
func (c *Conn) Close() {
	c.stopAfter()
	c.conn.Close()
}

// Flush writes what was buffered.
func (c *Conn) Flush() error {
	if len(c.Out) == 0 {
		return nil
	}
	if err := c.conn.SetWriteDeadline(time.Now().Add(suite.HangLimit)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.Out)
	c.Out = c.Out[:0]
	return err
}

// Next reads a packet. After the deadline it returns os.ErrDeadlineExceeded, and may be called
// again.
func (c *Conn) Next(deadline time.Time) (first byte, body []byte, err error) {
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return 0, nil, err
	}
	return c.in.Next()
}

// More reports whether Next would return without reading.
func (c *Conn) More() bool { return c.in.More() }
