package cluster

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"signalbox/scripts/suite"
)

// TestDialer connects from the address on which the cluster port listens, if that is a single one
// that can reach the other node.
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
		conn, err := dialer(listen, nil)(within(t, suite.HangLimit), l.Addr().String())
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

// TestDialerError names the address of the other node only: that of this one has no port yet.
func TestDialerError(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	to := l.Addr().String()
	must(t, l.Close())
	_, err = dialer("127.0.0.1:7000", nil)(within(t, suite.HangLimit), to)
	if !errors.Is(err, syscall.ECONNREFUSED) || err.Error() != "dial tcp "+to+": connect: connection refused" {
		t.Errorf("got %v", err)
	}
}

// TestDialerAsks refuses every address to which another node's host resolves.
func TestDialerAsks(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	refused := errors.New("refused")
	var asked string
	allowed := func(hostPort string) Control {
		return func(_ context.Context, _, address string, _ syscall.RawConn) error {
			asked = hostPort + " at " + address
			return refused
		}
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, listen := range []string{"127.0.0.3:7000", "0.0.0.0:7000"} {
		_, err := dialer(listen, allowed)(within(t, suite.HangLimit), "localhost:"+port)
		if want := "localhost:" + port + " at 127.0.0.1:" + port; !errors.Is(err, refused) || asked != want {
			t.Errorf("%s: got %v, asked for %s, want it refused for %s", listen, err, asked, want)
		}
	}
}
