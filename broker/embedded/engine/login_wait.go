package engine

import (
	"context"
	"errors"
	"time"
)

// errLeft ends the log-in of a client that has left.
var errLeft = errors.New("the client left before its log-in was decided")

// whileHere returns a context that ends with errLeft when the client leaves, unless
// it has sent more than CONNECT, as clients may that do not wait for CONNACK. It
// must be called on the goroutine that handles CONNECT, where nobody else reads;
// so must the function that it returns, once.
func (c *Conn) whileHere(ctx context.Context) (context.Context, func()) {
	if c.socket.AwaitEnd == nil || c.in.reader.n > 0 { // more is here: who leaves behind that wants it done
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
		c.socket.SetReadDeadline(time.Time{}) //nolint:errcheck // reading will tell
		cancel(nil)
	}
}
