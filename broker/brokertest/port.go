package brokertest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// Ports of FreePort, which systems do not assign by themselves.
const (
	firstPort = 12_000
	ports     = 18_000
)

// lastPort counts the assigned ports, from a random start.
var lastPort atomic.Uint64

func init() { lastPort.Store(rand.Uint64N(ports)) }

// FreePort returns an address of a local host at which no process listens. No other test of any
// process gets the port while this one runs, so that a server at it can be restarted: the UDP
// port with the same number is reserved until the test ends.
func FreePort(t testing.TB, host string) string {
	t.Helper()
	for range ports {
		port := strconv.FormatUint(firstPort+lastPort.Add(1)%ports, 10)
		held, err := net.ListenPacket("udp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			continue
		}
		address := net.JoinHostPort(host, port)
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			t.Cleanup(func() { held.Close() })
			return address
		}
		held.Close()
	}
	t.Fatal("no port is free")
	return ""
}
