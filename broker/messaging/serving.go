package messaging

import (
	"context"
	"net"
)

// IsServing reports whether this node takes the messages of a broker now.
func IsServing(b ServingBroker) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // so that nothing is waited for
	_, err := b.Serving(ctx)
	return err == nil
}

// CloseWhenNotServing returns a connection that is closed when another node is to take the messages of a broker. It
// waits until this one does. After an error the connection is closed.
func CloseWhenNotServing(ctx context.Context, b interface {
	Serving(ctx context.Context) (context.Context, error)
}, conn net.Conn) (net.Conn, error) {
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
