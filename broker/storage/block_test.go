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

// TestBlockReader reads what was appended, and zeros after the end.
func TestBlockReader(t *testing.T) {
	t.Parallel()
	block := AppendBytes(make([]byte, BlockHeader), "text")
	block = append(block, 7, 0xac, 0x02, 0x03)
	r, err := OpenBlock(SealBlock(block))
	must(t, err)
	text := r.Bytes()
	_ = append(text, 'x') // copies it
	if string(text) != "text" || r.Byte() != 7 || r.Number() != 300 || r.Signed() != -2 || r.Broken {
		t.Errorf("read %q and then something else than was written: %+v", text, r)
	}
	for _, read := range []func() bool{
		func() bool { return r.Byte() == 0 }, func() bool { return r.Number() == 0 }, func() bool { return r.Signed() == 0 }, func() bool { return r.Bytes() == nil },
	} {
		if r.Broken = false; !read() || !r.Broken {
			t.Error("read behind the end")
		}
	}
}
