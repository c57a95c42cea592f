package relay

import (
	"context"
	"net"
	"testing"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// TestServe_answers compares the relay's responses with those that clients require.
func TestServe_answers(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in := packet.NewReader(conn, 1024)
	message := packet.Message{Topic: []byte("t"), Payload: []byte("hi"), ID: 7, QoS: 2}
	for _, c := range []struct {
		send []byte
		want []byte // first bytes of the responses
	}{
		{packet.AppendConnect(nil, packet.Login{ClientID: "c", Clean: true}), []byte{packet.Connack}},
		{packet.AppendSubscribe(nil, 1, "t", 2), []byte{packet.Suback}},
		{packet.AppendPublish(nil, message), []byte{packet.Publish | 2<<1, packet.Pubrec}},
		{packet.AppendAck(nil, packet.Pubrel, 7), []byte{packet.Pubcomp}},
		{packet.AppendAck(nil, packet.Pubrec, 7), []byte{packet.Pubrel}},
		{packet.AppendEmpty(nil, packet.Pingreq), []byte{packet.Pingresp}},
	} {
		if _, err := conn.Write(c.send); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if got, _, err := in.Next(); err != nil || got != want {
				t.Fatalf("after %#x: got %#x, %v; want %#x", c.send[0], got, err, want)
			}
		}
	}
	if _, err := conn.Write(packet.AppendEmpty(nil, packet.Disconnect)); err != nil {
		t.Fatal(err)
	}
	if first, _, err := in.Next(); err == nil {
		t.Errorf("got packet %#x after DISCONNECT, want the end", first)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("the relay ended: %v", err)
	}
}
