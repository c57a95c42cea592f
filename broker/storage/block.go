package storage

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"signalbox/broker/records"
)

// A block is several records in one row:
//
//	version   1 byte
//	checksum  4 bytes, CRC-32C of the records, big endian
//	records   one after the other, as package records reads them
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
func OpenBlock(block []byte) (r records.Reader, err error) {
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
