package packet

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestAppend compares the packets with the bytes that the standard prescribes.
func TestAppend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"connect", AppendConnect(nil, Login{ClientID: "c", Username: "u", Password: "pw", Clean: true, KeepAlive: 60}),
			"\x10\x14\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01c\x00\x01u\x00\x02pw"},
		{"connect without a username, session kept", AppendConnect(nil, Login{ClientID: "c"}),
			"\x10\x0d\x00\x04MQTT\x04\x00\x00\x00\x00\x01c"},
		{"connect with MQTT 5", AppendConnect(nil, Login{ClientID: "c", Five: 3}),
			"\x10\x16\x00\x04MQTT\x05\x00\x00\x00\x08\x11\xff\xff\xff\xff\x21\x00\x03\x00\x01c"},
		{"subscribe with MQTT 5", AppendSubscribe5(nil, 7, "a/#", 2), "\x82\x09\x00\x07\x00\x00\x03a/#\x02"},
		{"subscribe", AppendSubscribe(nil, 7, "a/#", 2), "\x82\x08\x00\x07\x00\x03a/#\x02"},
		{"publish QoS 0", AppendPublish(nil, Message{Topic: []byte("t"), Payload: []byte("hi"), ID: 9}), "\x30\x05\x00\x01thi"},
		{"publish with all flags", AppendPublish([]byte("x"), Message{Topic: []byte("t"), ID: 0x0102, QoS: 2, Retain: true, Dup: true}),
			"x\x3d\x05\x00\x01t\x01\x02"},
		{"acknowledgement", AppendAck(nil, Pubrel, 0x0203), "\x62\x02\x02\x03"},
		{"empty", AppendEmpty(nil, Pingreq), "\xc0\x00"},
	} {
		if string(c.got) != c.want {
			t.Errorf("%s: got %q, want %q", c.name, c.got, c.want)
		}
	}
}

// TestReader reads packets back however the stream is split, also those that are longer
// than its buffer.
func TestReader(t *testing.T) {
	t.Parallel()
	long := bytes.Repeat([]byte("long"), 5_000)
	stream := AppendPublish(nil, Message{Topic: []byte("a/b"), Payload: long, ID: 1, QoS: 1})
	stream = AppendAck(stream, Puback, 2)
	stream = AppendEmpty(stream, Pingresp)
	stream = AppendPublish(stream, Message{Topic: []byte("t"), Payload: []byte("short")})
	for name, src := range map[string]io.Reader{
		"at once":      bytes.NewReader(stream),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
		"with the end": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r := NewReader(src, 16)
		first, body, err := r.Next()
		m, ok := ReadPublish(first, body)
		if err != nil || !ok || string(m.Topic) != "a/b" || !bytes.Equal(m.Payload, long) || m.ID != 1 || m.QoS != 1 {
			t.Errorf("%s: got a long message %t of %d bytes, %v", name, ok, len(m.Payload), err)
		}
		if first, body, err = r.Next(); err != nil || first != Puback || ReadID(body) != 2 {
			t.Errorf("%s: got %#x %v, %v; want a PUBACK of 2", name, first, body, err)
		}
		if first, body, err = r.Next(); err != nil || first != Pingresp || len(body) != 0 {
			t.Errorf("%s: got %#x %v, %v; want a PINGRESP", name, first, body, err)
		}
		first, body, err = r.Next()
		if m, ok = ReadPublish(first, body); err != nil || !ok || string(m.Payload) != "short" {
			t.Errorf("%s: got %q %t, %v; want the short message", name, m.Payload, ok, err)
		}
		if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v at the end, want %v", name, err, io.EOF)
		}
	}
}

func TestReader_refuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		give string
		want error
	}{
		"a length of five bytes": {"\x30\x80\x80\x80\x80\x01", errMalformed},
		"a packet too large":     {"\x30\xff\xff\xff\x7f", errMalformed},
		"half a packet":          {"\x30\x05\x00", io.ErrUnexpectedEOF},
	} {
		if _, _, err := NewReader(bytes.NewReader([]byte(c.give)), 64).Next(); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

func TestReadPublish_refuses_what_is_cut_short(t *testing.T) {
	t.Parallel()
	whole := AppendPublish(nil, Message{Topic: []byte("t"), ID: 1, QoS: 1})
	for n := range len(whole) - 2 {
		if m, ok := ReadPublish(whole[0], whole[2:2+n]); ok {
			t.Errorf("%d bytes: got %+v, want it refused", n, m)
		}
	}
}

func TestReadPublish5(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"\x00\x01t\x00\x01\x00hi":         "hi",
		"\x00\x01t\x00\x01\x02\x01\x01hi": "hi",
		"\x00\x01t\x00\x01\x00":           "",
		"\x00\x01t\x00\x01":               "refused",
		"\x00\x01t\x00\x01\x03\x01\x01":   "refused",
		"\x00\x01t\x00\x01\x80":           "refused",
	} {
		m, ok := ReadPublish5(Publish|1<<qosShift, []byte(body))
		got := string(m.Payload)
		if !ok {
			got = "refused"
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
}

// FuzzReader checks that a reader ends on any input, and that a message survives
// another encoding and decoding.
func FuzzReader(f *testing.F) {
	f.Add([]byte("\x30\x05\x00\x01thi\x40\x02\x00\x01"))
	f.Add([]byte("\x30\x80\x80\x80\x80\x01"))
	f.Add([]byte("\x3d\x05\x00\x01t\x01\x02"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(bytes.NewReader(stream), 8)
		for {
			first, body, err := r.Next()
			if err != nil {
				return
			}
			m, ok := ReadPublish(first, body)
			if !ok || Kind(first) != Publish || m.QoS == 3 {
				continue
			}
			again := NewReader(bytes.NewReader(AppendPublish(nil, m)), 8)
			first, body, err = again.Next()
			got, _ := ReadPublish(first, body)
			if diff := cmp.Diff(m, got); err != nil || diff != "" {
				t.Fatalf("after another journey: %v (-before +after):\n%s", err, diff)
			}
		}
	})
}
