package storage

import (
	"bytes"
	"errors"
	"testing"
)

// TestBlock compares a block with its stored form, and reads it.
func TestBlock(t *testing.T) {
	t.Parallel()
	want := append([]byte{1, 0xe3, 0x06, 0x92, 0x83}, "123456789"...) // the check value of CRC-32C
	got := SealBlock(append(make([]byte, BlockHeader), "123456789"...))
	if !bytes.Equal(got, want) {
		t.Errorf("sealed %x, want %x", got, want)
	}
	r, err := OpenBlock(want)
	if b := r.Bytes(); err != nil || b != nil || !r.Broken {
		t.Errorf("read %q (%v) of a length beyond the end", b, err)
	}
	for i := range want {
		bad := bytes.Clone(want)
		bad[i]++
		if _, err := OpenBlock(bad); !BlockDamaged(err) || errors.Is(err, ErrBlockVersion) != (i == 0) {
			t.Errorf("byte %d: got %v", i, err)
		}
	}
}
