package store

import (
	"slices"
	"testing"
)

// FuzzDecodeIDs decodes any bytes: decoding must not panic, and its result must survive
// encoding.
func FuzzDecodeIDs(f *testing.F) {
	f.Add([]byte{})
	f.Add(encodeIDs([]uint32{0, 1, 127, 128, 268435455, 4294967295}))
	f.Add([]byte{0x80})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x1f})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		ids, err := decodeIDs(b)
		if err != nil {
			return
		}
		again, err := decodeIDs(encodeIDs(ids))
		if err != nil || !slices.Equal(ids, again) {
			t.Errorf("%x gives %v and, encoded again, %v (%v)", b, ids, again, err)
		}
	})
}

func TestDecodeIDsRefuses(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{{0x80}, {0xff, 0xff, 0xff, 0xff, 0x1f}, {1, 0xff}} {
		if ids, err := decodeIDs(b); err == nil {
			t.Errorf("%x gives %v", b, ids)
		}
	}
}
