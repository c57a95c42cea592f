package embedded

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
)

// FuzzFirstPacket compares what is let through of a connection's first bytes
// with what the decoder makes of them, however they are cut up.
func FuzzFirstPacket(f *testing.F) {
	f.Add([]byte{0x10, 0x0c, 0x00, 0x04}, uint8(1))
	f.Add([]byte{0x10, 0xff, 0xff, 0xff, 0x7f}, uint8(2))
	f.Add([]byte{0x10, 0xff, 0xff, 0xff, 0xff, 0x01}, uint8(3))
	f.Add([]byte{0x10, 0x80, 0x80, 0x14, 0x00}, uint8(5))
	f.Add([]byte{0xc0, 0x00}, uint8(1))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		var h hello
		fits := true
		for rest := b; len(rest) > 0 && fits && !h.begun; {
			n := min(int(piece)+1, len(rest))
			fits = h.fits(rest[:n])
			rest = rest[n:]
		}
		if h.begun && fits != wellBegun(b) {
			t.Errorf("% x: let through %t", b, fits)
		}
		if !h.begun && fits && len(b) >= 5 {
			t.Errorf("% x: undecided", b)
		}
	})
}

// wellBegun tells whether b begins with a CONNECT of a fit size.
func wellBegun(b []byte) bool {
	if len(b) < 2 || b[0] != 0x10 {
		return false
	}
	size, shift := 0, 0
	for _, c := range b[1:min(len(b), 5)] {
		size += int(c&0x7f) << shift
		shift += 7
		if c&0x80 == 0 {
			return size <= maxConnectSize
		}
	}
	return false
}

// FuzzVeil: a topic that the server would swallow is hidden from it, and comes
// out as it went in.
func FuzzVeil(f *testing.F) {
	for _, topic := range []string{"", "a", "$SYS/x", "$sysx", "$share", "$share/g", "a/+", "#", "$CONTROL/x/v1"} {
		f.Add(topic)
	}
	f.Fuzz(func(t *testing.T, topic string) {
		if !dynsec.ValidTopic(topic) {
			return
		}
		hidden := veil(topic)
		if !mqtt.IsValidFilter(hidden, true) {
			t.Errorf("the server would swallow %q", hidden)
		}
		if hidden != topic && hidden != veiled+topic {
			t.Errorf("%q became %q", topic, hidden)
		}
	})
}

// FuzzConnection sends anything after CONNECT. Whatever it is, it may end its
// own connection only.
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
		d.greet(as(adminName, adminPassword), withWill("w", "x"))
		conn.Write(b1) //nolint:errcheck // the broker may have closed it by now
		conn.(*net.TCPConn).CloseWrite()
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
			t.Errorf("% x: the connection did not end", b1)
		}
		witness := join(t, b, 4, as(adminName, adminPassword), withID("witness"))
		witness.publish("still/alive", "", 1)
		witness.send(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Disconnect}})
	})
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error) //nolint:errorlint // straight from the connection
	return ok && e.Timeout()
}
