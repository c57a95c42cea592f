//go:build linux

package listen_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"signalbox/broker/embedded/listen"
)

// TestAwaitEnd detects that peers have left without reading what they sent, and can be
// interrupted.
func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	ca, certs := newAuthority(t)
	for _, protocol := range []string{"mqtt", "mqtts", "ws"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			outcomes := make(chan error)
			r := serve(t, options{handle: func(c *listen.Conn) {
				defer c.Close()
				c.SetReadDeadline(time.Unix(1, 0))
				outcomes <- c.AwaitEnd()
				c.SetReadDeadline(time.Time{})
				outcomes <- nil
				outcomes <- c.AwaitEnd()
			}}, stage{protocol: protocol}.config(certs))
			peer := r.open(r.dial(0), protocol, ca)
			if _, err := peer.Write([]byte("never read")); err != nil {
				t.Fatal(err)
			}
			if err := <-outcomes; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("past its deadline: %v", err)
			}
			<-outcomes
			peer.Close()
			if err := <-outcomes; err != nil {
				t.Errorf("the end was not noticed: %v", err)
			}
		})
	}
}
