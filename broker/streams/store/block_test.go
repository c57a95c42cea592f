package store

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/broker/messaging"
	"signalbox/broker/storage"
)

// sealed returns a block of runs.
func sealed(runs ...run) []byte {
	b := make([]byte, storage.BlockHeader)
	for _, r := range runs {
		b = append(b, r.data...)
	}
	return storage.SealBlock(b)
}

// varied returns messages with every combination of properties.
func varied() []messaging.Message {
	return []messaging.Message{
		{Topic: "a/ü", Payload: []byte{0, 255}, Properties: []byte{38, 0}, QoS: 2, At: 5},
		{Topic: "a/ü", Payload: nil, QoS: 1, At: 5},
		{Topic: "b", Payload: bytes.Repeat([]byte("x"), 300), At: 1 << 50},
		{Topic: strings.Repeat("t", 65535), Properties: bytes.Repeat([]byte{1}, 200), At: 1<<50 + 1},
		{At: 1<<50 + 2},
	}
}

func TestBlock(t *testing.T) {
	t.Parallel()
	want := varied()
	got, err := decode(nil, sealed(encode(want[:2], 0), encode(want[2:], 5)))
	must(t, err)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("after decoding (-want +got):\n%s", diff)
	}
}

// TestTimesOfRun encodes times that go back, and that begin before the last
// one.
func TestTimesOfRun(t *testing.T) {
	t.Parallel()
	r := encode([]messaging.Message{{At: 3}, {At: 12}, {At: -1}, {At: 11}, {At: 13}}, 10)
	got, err := decode(nil, sealed(r))
	must(t, err)
	var at []int64
	for _, m := range got {
		at = append(at, m.At)
	}
	if want := []int64{10, 12, 12, 12, 13}; !slices.Equal(at, want) || r.firstAt != 10 || r.lastAt != 13 || r.count != 5 {
		t.Errorf("got times %v and %+v, want %v", at, r, want)
	}
}

// TestDamagedBlock changes every byte of a block, and its length.
func TestDamagedBlock(t *testing.T) {
	t.Parallel()
	whole := sealed(encode(messages(1, 3), 0))
	for i := range whole {
		bad := slices.Clone(whole)
		bad[i] ^= 0x10
		if _, err := decode(nil, bad); !storage.BlockDamaged(err) {
			t.Errorf("with byte %d changed: got %v", i, err)
		}
		if _, err := decode(nil, whole[:i]); !storage.BlockDamaged(err) && i != storage.BlockHeader {
			t.Errorf("with %d bytes: got %v", i, err)
		}
	}
	for name, body := range map[string][]byte{
		"a run without messages":     {0, 2},
		"an endless number":          bytes.Repeat([]byte{0xff}, 11),
		"no time":                    {1},
		"a QoS of 3":                 {1, 2, 3, 0, 0, 0},
		"an unknown flag":            {1, 2, 0x10, 0, 0, 0},
		"a topic as none before":     {1, 2, sameTopic, 0, 0},
		"more than there is":         {1, 2, 0, 200, 1},
		"fewer messages than it has": {2, 2, 0, 0, 0, 0},
	} {
		if _, err := decode(nil, storage.SealBlock(append(make([]byte, storage.BlockHeader), body...))); !errors.Is(err, storage.ErrBlockFormat) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDecodeAllocates checks that decoding allocates nothing but the topic.
func TestDecodeAllocates(t *testing.T) {
	buffer := make([]messaging.Message, 0, 100)
	b := sealed(encode(messages(1, 100), 0))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := decode(buffer, b); err != nil {
			t.Error(err)
		}
	}); n > 1 {
		t.Errorf("decoding a hundred messages of one topic allocates %v times", n)
	}
}

// FuzzDecode decodes random bytes with a valid checksum. What can be decoded
// must be the same after it was encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add(encode(varied()[:3], 0).data)
	f.Add(append(encode(messages(1, 3), 0).data, encode(messages(9, 1), 0).data...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 0, 0, 0, 0})
	f.Add([]byte{1, 2, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decode(nil, storage.SealBlock(append(make([]byte, storage.BlockHeader), body...)))
		if err != nil || len(got) == 0 {
			return
		}
		var runs []run
		for i := range got { // one by one, as times may go back between runs
			runs = append(runs, encode(got[i:i+1], math.MinInt64))
		}
		again, err := decode(nil, sealed(runs...))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, again, same) {
			t.Errorf("got %+v, and after encoding and decoding it once more %+v", got, again)
		}
	})
}
