package store

import (
	"encoding/binary"
	"errors"
	"math"
)

// encodeIDs encodes each subscription identifier as an unsigned varint.
func encodeIDs(ids []uint32) (b []byte) {
	for _, id := range ids {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return b
}

var errIDs = errors.New("subscription identifiers are damaged")

// decodeIDs decodes what encodeIDs encoded.
func decodeIDs(b []byte) (ids []uint32, err error) {
	for len(b) > 0 {
		id, n := binary.Uvarint(b)
		if n <= 0 || id > math.MaxUint32 {
			return nil, errIDs
		}
		ids, b = append(ids, uint32(id)), b[n:]
	}
	return ids, nil
}
