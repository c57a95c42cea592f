// Package records reads the fields of binary records, as files and messages between nodes
// hold them: numbers as varints, strings and bytes with their length before them. It does
// not trust its input.
//
// Of this module it imports nothing.
package records

import "encoding/binary"

// Reader reads fields from the beginning of Rest. After the first that cannot be read it is
// Broken, Rest is empty, and all others are zero.
type Reader struct {
	Rest   []byte
	Broken bool
}

// Fail discards the rest.
func (r *Reader) Fail() { r.Broken, r.Rest = true, nil }

// Done reports whether everything was read, and nothing is left.
func (r *Reader) Done() bool { return !r.Broken && len(r.Rest) == 0 }

// Number reads an unsigned varint.
func (r *Reader) Number() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// NumberUpTo reads a number that is at most limit.
func (r *Reader) NumberUpTo(limit uint64) uint64 {
	v := r.Number()
	if v > limit {
		r.Fail()
		return 0
	}
	return v
}

// Count reads the number of items that follow, each of at least size bytes, so that it can
// be trusted for an allocation.
func (r *Reader) Count(size int) int {
	n := r.Number()
	if n > uint64(len(r.Rest)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Signed reads a signed varint.
func (r *Reader) Signed() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Byte reads one byte.
func (r *Reader) Byte() (b byte) {
	if len(r.Rest) == 0 {
		r.Fail()
		return 0
	}
	b, r.Rest = r.Rest[0], r.Rest[1:]
	return b
}

// Bool reads a byte that is 0 or 1.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail()
	}
	return b == 1
}

// Uint64 reads eight bytes, the most significant first.
func (r *Reader) Uint64() uint64 {
	b := r.Take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Take reads n bytes without copying them. Appending to them copies them.
func (r *Reader) Take(n int) (b []byte) {
	if n < 0 || n > len(r.Rest) {
		r.Fail()
		return nil
	}
	b, r.Rest = r.Rest[:n:n], r.Rest[n:]
	return b
}

// Bytes reads a length, and as many bytes without copying them. Appending to them copies
// them.
func (r *Reader) Bytes() []byte {
	n := r.Number()
	if n > uint64(len(r.Rest)) {
		r.Fail()
		return nil
	}
	return r.Take(int(n))
}

// Text reads a string.
func (r *Reader) Text() string { return string(r.Bytes()) }

// AppendBytes appends a length and the bytes, as Bytes reads them.
func AppendBytes[T string | []byte](record []byte, s T) []byte {
	return append(binary.AppendUvarint(record, uint64(len(s))), s...)
}
