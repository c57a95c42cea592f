package packet

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// TestMosquitto sends every sample to a real Mosquitto: it must behave as this package does,
// or differ as the table states.
func TestMosquitto(t *testing.T) {
	t.Parallel()
	s := brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	for name, samples := range allSamples() {
		if name == "DISCONNECT" {
			continue // it closes the connection in either case
		}
		t.Run(name, func(t *testing.T) { // sequential, because they share a client id
			for _, sample := range samples {
				got := mosquittoOutcome(t, s.Addr, sample)
				if want := expected(sample); got != want {
					t.Errorf("%d %s: Mosquitto's answer is %s, want %s", sample.version, sample.name, got, want)
				}
			}
		})
	}
}

// outcome is a broker's reaction: it continues, or closes the connection with a reason code or
// without one.
type outcome string

const (
	goesOn outcome = "to go on"
	closes outcome = "to close"
)

func closesWith(reason byte) outcome { return outcome(fmt.Sprintf("to close with 0x%02x", reason)) }

// expected returns the expected outcome for Mosquitto.
func expected(s sample) outcome {
	switch {
	case s.mosquitto == lenient, s.mosquitto == alike && s.reason == 0:
		return goesOn
	case s.mosquitto == silent, s.version != V5 && s.packet[0]>>4 != TypeConnect:
		return closes
	}
	return closesWith(cmp.Or(s.mosquitto, s.reason))
}

// mosquittoOutcome sends a sample to a broker, after CONNECT unless it is one.
func mosquittoOutcome(t *testing.T, addr string, s sample) outcome {
	t.Helper()
	conn, r := dial(t, addr)
	defer conn.Close()
	if s.packet[0]>>4 != TypeConnect {
		send(t, conn, hello(s.version))
		if p, err := read(r); err != nil || p[3] != 0 {
			t.Fatalf("hello: got % x, %v", p, err)
		}
	}
	send(t, conn, slices.Concat(s.packet, AppendPingreq(nil))) // the PINGREQ forces a response
	for {
		switch p, err := read(r); {
		case err != nil:
			return closes
		case p[0]>>4 == TypeConnack && p[3] != 0:
			return closesWith(p[3])
		case p[0]>>4 == TypeDisconnect:
			return closesWith(p[2])
		case p[0]>>4 == TypePingresp:
			return goesOn
		}
	}
}

func dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(suite.HangLimit)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// send writes; it is not an error if the broker has closed the connection already.
func send(t *testing.T, conn net.Conn, p []byte) {
	t.Helper()
	if _, err := conn.Write(p); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
}

// read reads one packet.
func read(r *bufio.Reader) ([]byte, error) {
	for n := 2; ; n++ {
		head, err := r.Peek(n)
		if err != nil {
			return nil, err
		}
		size, err := Size(head)
		if err != nil {
			return nil, err
		}
		if size > 0 {
			p := make([]byte, size)
			_, err = io.ReadFull(r, p)
			return p, err
		}
	}
}

// TestMosquittoForwards forwards a message by Mosquitto: the packet must equal the one encoded
// here.
func TestMosquittoForwards(t *testing.T) {
	t.Parallel()
	s := brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	for _, version := range []byte{V311, V5} {
		conn, r := dial(t, s.Addr)
		defer conn.Close()
		sub := Subscribe{PacketID: 1, ID: 300, Filters: []Filter{{"t/#", 1}}}
		send(t, conn, AppendConnect(nil, &Connect{Version: version, CleanStart: true, ClientID: "c", RequestProblemInfo: true}))
		send(t, conn, AppendSubscribe(nil, version, &sub))
		give := Outgoing{Topic: "t/1", Payload: body("x"), QoS: 1, PacketID: 9}
		if version == V5 {
			give.Properties, give.Alias = join([]any{b(1, 1), user, b(3), "json", b(8), "r", b(9), "\xff", user}), 2
		}
		send(t, conn, AppendPublish(nil, version, &give))
		want := give
		want.PacketID, want.Alias = 1, 0
		if version == V5 {
			want.SubscriptionIDs = []uint32{300}
		}
		var got []byte
		for len(got) == 0 || got[0]>>4 != TypePublish {
			var err error
			if got, err = read(r); err != nil {
				t.Fatal(err)
			}
		}
		if ours := AppendPublish(nil, version, &want); !slices.Equal(ours, got) {
			t.Errorf("version %d: Mosquitto sends\n% x, we\n% x", version, got, ours)
		}
	}
}
