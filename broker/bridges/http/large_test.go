package http_test

import (
	"io"
	"net"
	"strings"
	"testing"

	"signalbox/broker/bridges"
)

// TestAServerThatReadsNoLargeBody checks that a refusal is received although the server closes
// the connection before the body is sent.
func TestAServerThatReadsNoLargeBody(t *testing.T) {
	t.Parallel()
	url := raw(t, func(n int, conn net.Conn) {
		if n > 0 { // the first connection is Connect's
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, "HTTP/1.1 413 Too large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}
	})
	c := connected(t, url, "", "", "")
	for range 5 {
		results, err := deliver(t, c, entries(strings.Repeat("x", 16<<20)))
		if err != nil || results[0].State != bridges.Rejected {
			t.Fatalf("got %v, %v, want it rejected", results, err)
		}
	}
}
