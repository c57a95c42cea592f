package storage

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A block is several records in one row:
//
//	version   1 byte
//	checksum  4 bytes, CRC-32C of the records, big endian
//	records   one after the other, as a BlockReader reads them
const (
	blockVersion = 1
	// BlockHeader is the number of bytes before the records.
	BlockHeader = 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The kinds of damage of a block.
var (
	ErrBlockVersion  = errors.New("the block is of a version that is not known")
	ErrBlockChecksum = errors.New("the block's checksum is wrong")
	ErrBlockFormat   = errors.New("the block cannot be read")
)

// SealBlock fills in the header of a complete block.
func SealBlock(block []byte) []byte {
	block[0] = blockVersion
	binary.BigEndian.PutUint32(block[1:BlockHeader], crc32.Checksum(block[BlockHeader:], castagnoli))
	return block
}

// OpenBlock checks the header of a block and returns a reader of its records, whose
// byte slices are parts of the block.
func OpenBlock(block []byte) (r BlockReader, err error) {
	if len(block) < BlockHeader || block[0] != blockVersion {
		return r, ErrBlockVersion
	}
	r.Rest = block[BlockHeader:]
	if crc32.Checksum(r.Rest, castagnoli) != binary.BigEndian.Uint32(block[1:BlockHeader]) {
		return r, ErrBlockChecksum
	}
	return r, nil
}

// BlockDamaged reports whether an error is about the contents of a block.
func BlockDamaged(err error) bool {
	return errors.Is(err, ErrBlockVersion) || errors.Is(err, ErrBlockChecksum) || errors.Is(err, ErrBlockFormat)
}

// BlockReader reads the fields of records. After an error it is Broken, and
// reads zeros.
type BlockReader struct {
	Rest   []byte
	Broken bool
}

// fail discards the rest.
func (r *BlockReader) fail() { r.Broken, r.Rest = true, nil }

// Number reads an unsigned varint.
func (r *BlockReader) Number() uint64 {
	v, n := binary.Uvarint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Signed reads a signed varint.
func (r *BlockReader) Signed() int64 {
	v, n := binary.Varint(r.Rest)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[n:]
	return v
}

// Byte reads one byte.
func (r *BlockReader) Byte() (b byte) {
	if len(r.Rest) == 0 {
		r.fail()
		return 0
	}
	b, r.Rest = r.Rest[0], r.Rest[1:]
	return b
}

// Bytes reads a length, an unsigned varint, and as many bytes. Appending to them copies
// them.
func (r *BlockReader) Bytes() (b []byte) {
	n := r.Number()
	if n > uint64(len(r.Rest)) {
		r.fail()
		return nil
	}
	b, r.Rest = r.Rest[:n:n], r.Rest[n:]
	return b
}

// AppendBytes appends a length and the bytes, as Bytes reads them.
func AppendBytes[T string | []byte](block []byte, s T) []byte {
	return append(binary.AppendUvarint(block, uint64(len(s))), s...)
}
