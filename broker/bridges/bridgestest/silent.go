package bridgestest

import (
	"net"
	"sync"
	"testing"
)

// Silent starts a server that accepts connections and sends nothing, and returns its address. If
// talk is not nil it may send something first.
func Silent(tb testing.TB, talk func(net.Conn)) (address string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var serving sync.WaitGroup
	over := make(chan struct{})
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				<-over
				conn.Close()
			})
			if talk != nil {
				serving.Go(func() { talk(conn) })
			}
		}
	})
	tb.Cleanup(func() {
		l.Close()
		close(over)
		serving.Wait()
	})
	return l.Addr().String()
}
