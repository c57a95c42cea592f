package suite

import (
	"net"
	"sync"
	"testing"
)

// Listen accepts TCP connections on a port of this host until the test ends. Each is
// handled on a goroutine of its own and closed when that returns, or when the test ends.
func Listen(t testing.TB, handle func(conn net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			handled := make(chan struct{})
			serving.Go(func() {
				select {
				case <-over:
				case <-handled:
				}
				conn.Close()
			})
			serving.Go(func() {
				defer close(handled)
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		close(over)
		serving.Wait()
	})
	return l.Addr().String()
}
