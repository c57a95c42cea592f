package mesh

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/broker/embedded/engine"
)

var compareOptions = cmp.Options{
	cmp.AllowUnexported(hello{}, welcome{}, routes{}, route{}, ackFrame{}, messageFrame{}),
	cmpopts.IgnoreUnexported(engine.Message{}), cmpopts.EquateEmpty(),
}

// messageFrames returns some messages to encode.
func messageFrames() []messageFrame {
	return []messageFrame{
		{message: &engine.Message{Topic: "a"}},
		{
			message: &engine.Message{
				Topic: "a/b", Payload: []byte("payload"), Properties: []byte{1, 1}, QoS: 2, Retain: true,
				CreatedAt: 1_700_000_000_000, ExpiresAt: 1_700_000_001_000, Publisher: "c", Username: "u", Stamp: 1 << 60,
			},
			Forward: engine.Forward{Direct: true, Shares: []string{"$share/g/a/+", "$share/h/#"}, QoS: 1},
			number:  77, late: true,
		},
		{
			message: &engine.Message{Topic: strings.Repeat("t", maxText), Payload: make([]byte, 70_000), QoS: 1, CreatedAt: -1},
			Forward: engine.Forward{Shares: []string{"$share/g/#"}},
		},
	}
}

// sampleFrames returns encoded frames of every kind and their contents.
func sampleFrames() (all [][]byte, decoded []any) {
	add := func(frame []byte, contents any) { all, decoded = append(all, frame), append(decoded, contents) }
	h, w := hello{node: 3, incarnation: 1 << 63}, welcome{known: true, received: 12}
	add(appendHello(nil, h), h)
	add(appendWelcome(nil, w), w)
	r := routes{number: 9, full: true, last: true, list: []route{
		{filter: "a/#", Interest: engine.Interest{QoS: 2}}, {filter: "$share/g/a", Interest: engine.Interest{QoS: 1, Away: true}},
		{filter: "b", removed: true},
	}}
	add(appendRoutes(nil, &r), r)
	for _, p := range messageFrames() {
		add(appendMessage(nil, &p), p)
	}
	add(appendAck(nil, frameRoutesAck, ackFrame{number: 5}), ackFrame{number: 5})
	n := ackFrame{number: 1 << 40, names: []string{"$share/g/a", ""}}
	add(appendAck(nil, frameNoMember, n), n)
	add(appendPing(nil), nil)
	return all, decoded
}

// decode decodes a frame.
func decode(kind byte, body []byte) (contents any, err error) {
	switch kind {
	case frameHello:
		return decodeHello(body)
	case frameWelcome:
		return decodeWelcome(body)
	case frameRoutes:
		return decodeRoutes(body)
	case frameMessage:
		return decodeMessage(body, &interner{})
	case framePing:
		return nil, nil //nolint:nilnil // it has no body
	}
	return decodeAck(body)
}

// TestFrames decodes encoded frames, whatever the reads return.
func TestFrames(t *testing.T) {
	t.Parallel()
	all, decoded := sampleFrames()
	stream := bytes.Join(all, nil)
	for name, from := range map[string]io.Reader{
		"at once": bytes.NewReader(stream), "in halves": iotest.HalfReader(bytes.NewReader(stream)),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
	} {
		in := newReader(from)
		for i := range all {
			kind, body, err := in.frame()
			if err != nil {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
			got, err := decode(kind, body)
			if diff := cmp.Diff(decoded[i], got, compareOptions); diff != "" || err != nil {
				t.Errorf("%s: frame %d: %v (-want +got):\n%s", name, i, err, diff)
			}
		}
		if _, _, err := in.frame(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v at the end", name, err)
		}
	}
}

// TestFrameTooLarge rejects a frame before memory is allocated for it.
func TestFrameTooLarge(t *testing.T) {
	t.Parallel()
	in := newReader(bytes.NewReader([]byte{frameMessage, 0xFF, 0xFF, 0xFF, 0xFF}))
	if _, _, err := in.frame(); !errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
	if len(in.buf) > readSize {
		t.Errorf("the buffer has %d bytes", len(in.buf))
	}
}

// TestUnknownVersion rejects another version of the format.
func TestUnknownVersion(t *testing.T) {
	t.Parallel()
	frame := appendHello(nil, hello{node: 1})
	frame[headerSize]++
	if _, err := decodeHello(frame[headerSize:]); err == nil || errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
}

// FuzzDecode decodes any bytes: what can be decoded survives encoding.
func FuzzDecode(f *testing.F) {
	all, _ := sampleFrames()
	for _, frame := range all {
		if len(frame) < 1000 {
			f.Add(frame[0], frame[headerSize:])
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		contents, err := decode(kind, body)
		if err != nil || contents == nil {
			return
		}
		var again []byte
		switch s := contents.(type) {
		case hello:
			again = appendHello(nil, s)
		case welcome:
			again = appendWelcome(nil, s)
		case routes:
			again = appendRoutes(nil, &s)
		case messageFrame:
			again = appendMessage(nil, &s)
		case ackFrame:
			again = appendAck(nil, kind, s)
		}
		twice, err := decode(kind, again[headerSize:])
		if diff := cmp.Diff(contents, twice, compareOptions); diff != "" || err != nil {
			t.Errorf("read again: %v (-first +second):\n%s", err, diff)
		}
	})
}

// FuzzReader reads any bytes as a stream of frames.
func FuzzReader(f *testing.F) {
	all, _ := sampleFrames()
	f.Add(bytes.Join(all[:3], nil))
	f.Fuzz(func(t *testing.T, stream []byte) {
		in, total := newReader(bytes.NewReader(stream)), 0
		for {
			_, body, err := in.frame()
			if err != nil {
				break
			}
			total += headerSize + len(body)
		}
		if total > len(stream) {
			t.Errorf("%d bytes of frames in %d", total, len(stream))
		}
	})
}
