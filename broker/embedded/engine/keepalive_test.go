package engine_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// TestKeepAliveIsExact disconnects a client that sends nothing exactly after one and a half
// times its keep alive, regardless of what it receives meanwhile [MQTT-3.1.2-22], in 3.1.1
// [MQTT-3.1.2-24].
func TestKeepAliveIsExact(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{packet.V31, packet.V311, packet.V5} {
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { keepAliveIsExact(t, version) })
		})
	}
}

func keepAliveIsExact(t *testing.T, version byte) {
	b := enginetest.Unconnected(t, suite.HangLimit, t.TempDir())
	defer b.Close()
	check(t, b.Resume(t.Context()))
	c, ended := pipe(b)
	var packets []byte
	packets = packet.AppendConnect(packets, &packet.Connect{Version: version, ClientID: "c", CleanStart: true, KeepAlive: 10})
	packets = packet.AppendSubscribe(packets, version, &packet.Subscribe{PacketID: 1, Filters: []packet.Filter{{Filter: "t"}}})
	_, err := c.Write(packets)
	check(t, err)
	began := time.Now()
	for _, pause := range []time.Duration{6 * time.Second, 8 * time.Second} { // 14 s of silence
		<-time.After(pause)
		check(t, b.Publish(&engine.Message{Topic: "t"}))
	}
	if lasted := (<-ended).Sub(began); lasted != 15*time.Second {
		t.Errorf("silence has ended the connection after %s, want 15s", lasted)
	}

	c, ended = pipe(b)
	began = time.Now()
	_, err = c.Write(packets)
	check(t, err)
	for range 3 {
		<-time.After(14 * time.Second)
		_, err := c.Write([]byte{packet.TypePingreq << 4, 0})
		check(t, err)
	}
	if lasted := (<-ended).Sub(began); lasted != 3*14*time.Second+15*time.Second {
		t.Errorf("the connection has ended after %s, want 57s", lasted)
	}
}

// pipe connects to a broker without a network, and returns when the broker has closed the
// connection.
func pipe(b *enginetest.Broker) (client net.Conn, ended chan time.Time) {
	client, ended = b.Pipe(), make(chan time.Time, 1)
	go func() {
		io.Copy(io.Discard, client) //nolint:errcheck // only the end counts
		ended <- time.Now()
	}()
	return client, ended
}
