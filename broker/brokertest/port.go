package brokertest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// The ports that FreePort gives: systems do not give these out by themselves.
const (
	firstPort = 12_000
	ports     = 18_000
)

// lastPort counts the ports that were given, from somewhere on.
var lastPort atomic.Uint64

func init() { lastPort.Store(rand.Uint64N(ports)) }

// FreePort returns an address of a host of this machine at which no process listens. No
// other test of any process gets the port while this one runs, so that a server at it may
// stop and begin again: the UDP port of the same number is held until the test ends.
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
