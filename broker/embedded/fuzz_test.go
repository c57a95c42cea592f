package embedded

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// FuzzConnection sends arbitrary bytes after CONNECT, which may end their own connection
// only.
func FuzzConnection(f *testing.F) {
	f.Add(byte(5), []byte{0x82, 0x05, 0x00, 0x01, 0x00, 0x00, 0x00})
	f.Add(byte(5), []byte{0x82, 0x07, 0x00, 0x01, 0x00, 0x00, 0x01, 'a', 0x01})
	f.Add(byte(4), []byte{0x32, 0x06, 0x00, 0x01, 'a', 0x00, 0x01, 'x'})
	f.Add(byte(4), []byte{0x10, 0x0d, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 0, 0, 1, 'x'})
	f.Add(byte(5), []byte{0xe0, 0x02, 0x04, 0x00})
	f.Add(byte(5), []byte{0xa2, 0x06, 0x00, 0x01, 0x00, 0x00, 0x01, 'a'})
	c := testConfig()
	b, err := New(context.Background(), c, f.TempDir(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { b.Close(context.Background()) })
	if err := b.Start(context.Background()); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, version byte, b1 []byte) {
		version = 3 + version%3
		conn, err := net.Dial("tcp", b.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		d := newDevice(t, conn, version)
		d.SendConnect(as(adminName, adminPassword), withWill("w", "x"))
		conn.Write(b1) //nolint:errcheck // the broker may have closed it by now
		conn.(*net.TCPConn).CloseWrite()
		conn.SetDeadline(time.Now().Add(suite.HangLimit))
		if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
			t.Errorf("% x: the connection did not end", b1)
		}
		witness := join(t, b, 4, as(adminName, adminPassword), withID("witness"))
		witness.Publish("still/alive", "", 1)
		witness.Send(packet.Packet{Type: packet.Disconnect})
	})
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // straight from the connection
	return ok && e.Timeout()
}
