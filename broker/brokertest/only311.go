package brokertest

import (
	"bufio"
	"io"
	"net"
	"sync"
	"testing"

	wire "signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// Only311 starts a proxy that refuses MQTT 5 like a broker which only supports 3.1.1: with code 1,
// or by closing the connection.
func Only311(t testing.TB, target string, closes bool) (addr string) {
	t.Helper()
	return suite.Listen(t, func(conn net.Conn) { forward311(conn, target, closes) })
}

func forward311(conn net.Conn, target string, closes bool) {
	in := bufio.NewReader(conn)
	if p, err := in.Peek(9); err != nil || p[8] != wire.V311 {
		if !closes {
			conn.Write([]byte{wire.Connack, 2, 0, wire.UnsupportedVersion3}) //nolint:errcheck // the client notices it
		}
		return
	}
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(conn, up) //nolint:errcheck // either side may close
		conn.Close()
	})
	io.Copy(up, in) //nolint:errcheck // either side may close
	up.(*net.TCPConn).CloseWrite()
	wg.Wait()
}
