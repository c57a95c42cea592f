package cluster

import (
	"net"
	"testing"
)

// TestDialer connects from the address on which the cluster port listens, where
// that is one and leads to the other node.
func TestDialer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	for listen, want := range map[string]string{
		"127.0.0.3:7000":  "127.0.0.3",
		"0.0.0.0:7000":    "127.0.0.1",
		":7000":           "127.0.0.1",
		"localhost:7000":  "127.0.0.1",
		"[::1]:7000":      "127.0.0.1", // leads nowhere that way
		"192.0.2.1:7000":  "127.0.0.1", // as above
		"[::]:7000":       "127.0.0.1",
		"not an address":  "127.0.0.1",
		"[fe80::1%lo]:70": "127.0.0.1",
	} {
		conn, err := dialer(listen)(within(t, patience), l.Addr().String())
		if err != nil {
			t.Errorf("%s: %v", listen, err)
			continue
		}
		defer conn.Close()
		if host, _, _ := net.SplitHostPort(conn.LocalAddr().String()); host != want {
			t.Errorf("%s connects from %s, want %s", listen, host, want)
		}
	}
}
