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

var asTheyAre = cmp.Options{
	cmp.AllowUnexported(hello{}, welcome{}, routes{}, route{}, numbered{}, parcel{}),
	cmpopts.IgnoreUnexported(engine.Message{}), cmpopts.EquateEmpty(),
}

// parcels are some messages as they cross.
func parcels() []parcel {
	return []parcel{
		{message: &engine.Message{Topic: "a"}},
		{
			message: &engine.Message{
				Topic: "a/b", Payload: []byte("payload"), Properties: []byte{1, 1}, QoS: 2, Retain: true,
				CreatedAt: 1_700_000_000_000, ExpiresAt: 1_700_000_001_000, Publisher: "c", Username: "u", Stamp: 1 << 60,
			},
			Crossing: engine.Crossing{Direct: true, Shares: []string{"$share/g/a/+", "$share/h/#"}, QoS: 1},
			number:   77, late: true,
		},
		{
			message:  &engine.Message{Topic: strings.Repeat("t", maxText), Payload: make([]byte, 70_000), QoS: 1, CreatedAt: -1},
			Crossing: engine.Crossing{Shares: []string{"$share/g/#"}},
		},
	}
}

// frames are one of each kind, and what they say.
func frames() (all [][]byte, said []any) {
	add := func(frame []byte, says any) { all, said = append(all, frame), append(said, says) }
	h, w := hello{node: 3, incarnation: 1 << 63}, welcome{knows: true, received: 12}
	add(appendHello(nil, h), h)
	add(appendWelcome(nil, w), w)
	r := routes{number: 9, whole: true, last: true, list: []route{
		{filter: "a/#", Interest: engine.Interest{QoS: 2}}, {filter: "$share/g/a", Interest: engine.Interest{QoS: 1, Away: true}},
		{filter: "b", gone: true},
	}}
	add(appendRoutes(nil, &r), r)
	for _, p := range parcels() {
		add(appendParcel(nil, &p), p)
	}
	add(appendNumbered(nil, frameKnown, numbered{number: 5}), numbered{number: 5})
	n := numbered{number: 1 << 40, names: []string{"$share/g/a", ""}}
	add(appendNumbered(nil, frameUntaken, n), n)
	add(appendPing(nil), nil)
	return all, said
}

// decode gives what a frame says.
func decode(kind byte, body []byte) (says any, err error) {
	switch kind {
	case frameHello:
		return decodeHello(body)
	case frameWelcome:
		return decodeWelcome(body)
	case frameRoutes:
		return decodeRoutes(body)
	case frameMessage:
		return decodeParcel(body, &names{})
	case framePing:
		return nil, nil //nolint:nilnil // it says nothing
	}
	return decodeNumbered(body)
}

// TestFrames reads what was written, however it arrives.
func TestFrames(t *testing.T) {
	t.Parallel()
	all, said := frames()
	stream := bytes.Join(all, nil)
	for name, from := range map[string]io.Reader{
		"at once": bytes.NewReader(stream), "in pieces": iotest.HalfReader(bytes.NewReader(stream)),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
	} {
		in := newReader(from)
		for i := range all {
			kind, body, err := in.frame()
			if err != nil {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
			got, err := decode(kind, body)
			if diff := cmp.Diff(said[i], got, asTheyAre); diff != "" || err != nil {
				t.Errorf("%s: frame %d: %v (-want +got):\n%s", name, i, err, diff)
			}
		}
		if _, _, err := in.frame(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v at the end", name, err)
		}
	}
}

// TestFrameTooLarge refuses a frame before there is room made for it.
func TestFrameTooLarge(t *testing.T) {
	t.Parallel()
	in := newReader(bytes.NewReader([]byte{frameMessage, 0xFF, 0xFF, 0xFF, 0xFF}))
	if _, _, err := in.frame(); !errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
	if len(in.buf) > readSize {
		t.Errorf("%d bytes were made room for", len(in.buf))
	}
}

// TestFormat refuses another version of the format.
func TestFormat(t *testing.T) {
	t.Parallel()
	frame := appendHello(nil, hello{node: 1})
	frame[headSize]++
	if _, err := decodeHello(frame[headSize:]); err == nil || errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
}

// FuzzDecode takes any bytes as a frame: what can be read is written as it was
// read, and needs no more room than it takes.
func FuzzDecode(f *testing.F) {
	all, _ := frames()
	for _, frame := range all {
		if len(frame) < 1000 {
			f.Add(frame[0], frame[headSize:])
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		says, err := decode(kind, body)
		if err != nil || says == nil {
			return
		}
		var again []byte
		switch s := says.(type) {
		case hello:
			again = appendHello(nil, s)
		case welcome:
			again = appendWelcome(nil, s)
		case routes:
			again = appendRoutes(nil, &s)
		case parcel:
			again = appendParcel(nil, &s)
		case numbered:
			again = appendNumbered(nil, kind, s)
		}
		twice, err := decode(kind, again[headSize:])
		if diff := cmp.Diff(says, twice, asTheyAre); diff != "" || err != nil {
			t.Errorf("read again: %v (-first +second):\n%s", err, diff)
		}
	})
}

// FuzzReader takes any bytes as a stream of frames.
func FuzzReader(f *testing.F) {
	all, _ := frames()
	f.Add(bytes.Join(all[:3], nil))
	f.Fuzz(func(t *testing.T, stream []byte) {
		in, total := newReader(bytes.NewReader(stream)), 0
		for {
			_, body, err := in.frame()
			if err != nil {
				break
			}
			total += headSize + len(body)
		}
		if total > len(stream) {
			t.Errorf("%d bytes of frames in %d", total, len(stream))
		}
	})
}
