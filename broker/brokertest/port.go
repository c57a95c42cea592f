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

// FreePort gives an address of a host of this machine that nobody listens at. It
// is given to nobody else of this process, so that whoever listens there may stop
// and begin again.
func FreePort(t testing.TB, host string) string {
	t.Helper()
	for range ports {
		address := net.JoinHostPort(host, strconv.FormatUint(firstPort+lastPort.Add(1)%ports, 10))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
