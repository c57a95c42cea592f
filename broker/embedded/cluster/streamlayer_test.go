package cluster

import (
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// readSlowly reads 64 KiB a second until the connection is closed.
func readSlowly(conn net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		<-time.After(time.Second)
		if _, err := io.ReadFull(conn, buf); err != nil {
			return
		}
	}
}

// TestMessageOnSlowLink sends entries on a link that needs far longer for each than
// the time of a message. One that is not read at all fails in its time.
func TestMessageOnSlowLink(t *testing.T) {
	const timeout = 10 * time.Second
	for name, reads := range map[string]bool{"read slowly": true, "not read": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				conn := &scaledConn{Conn: near, timeout: timeout}
				var wg sync.WaitGroup
				defer wg.Wait()
				defer conn.Close()
				if reads {
					wg.Go(func() { readSlowly(far) })
				}
				for range 2 {
					began := time.Now()
					must(t, conn.SetDeadline(began.Add(timeout)))
					n, err := conn.Write(make([]byte, 8*mebibyte))
					switch took := time.Since(began); {
					case reads && (err != nil || n != 8*mebibyte || took < 4*timeout):
						t.Fatalf("%d bytes were written in %v: %v", n, took, err)
					case !reads && (err == nil || took != timeout):
						t.Fatalf("%d bytes were written in %v: %v, want %v", n, took, err, timeout)
					}
				}
			})
		})
	}
}
