package remote

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker/mqtt/dial"
	"signalbox/broker/mqtt/hosted"
)

// tape is a connection whose input is already complete.
type tape struct {
	net.Conn
	io.Reader
}

func (t tape) Read(p []byte) (int, error)      { return t.Reader.Read(p) }
func (tape) SetReadDeadline(t time.Time) error { return nil }

func wireOf(b []byte) *checkedConn {
	log := slog.New(slog.DiscardHandler)
	return newCheckedConn(tape{Reader: bytes.NewReader(b)}, 3, time.Second, log)
}

var connack = []byte{packetConnack << 4, 2, 0, 0}

func TestWire(t *testing.T) {
	t.Parallel()
	after := func(b ...byte) []byte { return append(bytes.Clone(connack), b...) }
	for name, c := range map[string]struct {
		in      []byte
		offends bool
	}{
		"a greeting":                       {connack, false},
		"a refusal":                        {[]byte{packetConnack << 4, 2, 0, 5}, false},
		"a refusal of no known kind":       {[]byte{packetConnack << 4, 2, 0, 6}, true},
		"a greeting that is too long":      {[]byte{packetConnack << 4, 3, 0, 0, 0}, true},
		"a message before the greeting":    {[]byte{0x30, 3, 0, 1, 't'}, true},
		"a second greeting":                {after(connack...), true},
		"a message":                        {after(0x31, 4, 0, 1, 't', 'x'), false},
		"a message of QoS 1":               {after(0x32, 5, 0, 1, 't', 0, 1), true},
		"a message without topic":          {after(0x30, 1, 0), true},
		"as many codes as were asked for":  {after(packetSuback<<4, 5, 0, 1, 0, 0, 0), false},
		"more codes than were asked for":   {after(packetSuback<<4, 6, 0, 1, 0, 0, 0, 0), true},
		"an acknowledgement":               {after(packetPuback<<4, 2, 0, 1), false},
		"a long acknowledgement":           {after(packetPuback<<4, 3, 0, 1, 0), true},
		"a ping's answer":                  {after(packetPingresp<<4, 0), false},
		"a ping's answer with a body":      {after(packetPingresp<<4, 1, 0), true},
		"flags where there must be none":   {after(packetPingresp<<4|1, 0), true},
		"what only a client may send":      {after(0x82, 2, 0, 1), true},
		"a length of more than four bytes": {after(0x30, 0xff, 0xff, 0xff, 0xff, 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := io.ReadAll(wireOf(c.in))
			_, offends := errors.AsType[*dial.ProtocolError](err)
			if offends != c.offends {
				t.Fatalf("reading ended with %v", err)
			}
			if !offends && !bytes.Equal(got, c.in) {
				t.Errorf("% x came through as % x", c.in, got)
			}
		})
	}
}

func TestWire_passes_over_what_is_too_large(t *testing.T) {
	t.Parallel()
	length := maxPublish + 1
	large := append([]byte{0x30, byte(length)&0x7f | 0x80, byte(length>>7)&0x7f | 0x80, byte(length>>14)&0x7f | 0x80, byte(length >> 21)},
		make([]byte, length)...)
	ping := []byte{packetPingresp << 4, 0}
	got, err := io.ReadAll(wireOf(bytes.Join([][]byte{connack, large, ping}, nil)))
	if want := append(bytes.Clone(connack), ping...); err != nil || !bytes.Equal(got, want) {
		t.Errorf("% x, %v came through, want % x", got[:min(len(got), 20)], err, want)
	}
}

// The library receives only valid packets, whatever the input.
func FuzzWire(f *testing.F) {
	f.Add([]byte{0x31, 4, 0, 1, 't', 'x'})
	f.Add([]byte{packetSuback << 4, 5, 0, 1, 0, 0x80, 0, packetPuback << 4, 2, 0, 1, packetPingresp << 4, 0})
	f.Add([]byte{0x30, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		w := wireOf(append(bytes.Clone(connack), b...))
		for range 1000 {
			p, err := packets.ReadPacket(w)
			if err != nil {
				return
			}
			switch p := p.(type) {
			case *packets.SubackPacket:
				if n := len(p.ReturnCodes); n == 0 || n > 3 {
					t.Errorf("a SUBACK with %d codes", n)
				}
			case *packets.ConnackPacket, *packets.PublishPacket, *packets.PubackPacket, *packets.PingrespPacket:
			default:
				t.Errorf("a %T", p)
			}
		}
	})
}

// Whatever a broker sends after CONNACK, the session ends when the connection does, and
// nothing panics.
func FuzzSession(f *testing.F) {
	answer := `{"responses":[{"correlationData":"x"}]}`
	topic := "$CONTROL/dynamic-security/v1/response"
	publish := append([]byte{0x30, byte(2 + len(topic) + len(answer)), 0, byte(len(topic))}, topic+answer...)
	f.Add(publish)
	f.Add([]byte{packetSuback << 4, 11, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, packetPuback << 4, 2, 0, 2})
	f.Add([]byte{packetSuback << 4, 3, 0, 1, 0x80, packetPuback << 4, 2, 0, 1, packetSuback << 4, 3, 0, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			packets.ReadPacket(theirs)                      //nolint:errcheck // CONNECT
			theirs.Write(connack)                           //nolint:errcheck // see below
			packets.ReadPacket(theirs)                      //nolint:errcheck // SUBSCRIBE
			theirs.SetDeadline(time.Now().Add(time.Second)) //nolint:errcheck // a pipe has deadlines
			go io.Copy(io.Discard, theirs)                  //nolint:errcheck // until it is closed
			theirs.Write(b)                                 //nolint:errcheck // the client may close the connection
			theirs.Close()
		}()
		r := &Broker{timing: defaultTiming, log: slog.New(slog.DiscardHandler), sys: newSysTree(time.Now), now: time.Now, instance: "x", hosted: hosted.New(hosted.Options{})}
		s := r.newSession(ours)
		if err := s.handshake(t.Context(), r.clientOptions().SetWriteTimeout(50*time.Millisecond)); err != nil {
			t.Fatalf("log in: %v", err)
		}
		r.wg.Go(s.send)
		r.discover(t.Context(), s) //nolint:errcheck // any outcome
		<-s.lost
		s.close()
		r.wg.Wait()
		<-done
	})
}
