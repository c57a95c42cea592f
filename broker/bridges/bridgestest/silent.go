package bridgestest

import (
	"net"
	"sync"
	"testing"
)

// Silent gives the address of a server that takes connections and says nothing. Talk,
// where it is not nil, may say something first.
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
