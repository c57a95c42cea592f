package engine

import (
	"context"
	"errors"
	"time"
)

// errLeft is the outcome of the log-in of a client that disconnected.
var errLeft = errors.New("the client left before its log-in was decided")

// whileConnected returns a context that ends with errLeft when the client disconnects. It does
// not end if the client has sent more than CONNECT, as a client may that does not wait for
// CONNACK. It must be called on the goroutine that handles CONNECT, because it reads the
// connection; so must the function that it returns, once.
func (c *Conn) whileConnected(ctx context.Context) (context.Context, func()) {
	if c.socket.AwaitEnd == nil || c.in.reader.n > 0 { // a client that sent more expects it to be handled
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.socket.SetReadDeadline(time.Time{}) //nolint:errcheck // waiting will tell
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if c.socket.AwaitEnd() == nil {
			cancel(errLeft)
		}
	}()
	return ctx, func() {
		c.socket.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // it ends by itself where that fails
		<-ended
		if c.socket.Polled != nil {
			c.stopWaiting()
		} else {
			c.socket.SetReadDeadline(time.Time{}) //nolint:errcheck // reading will tell
		}
		cancel(nil)
	}
}
