//go:build linux

package load

import (
	"encoding/binary"
	"time"
)

// stamp is what every payload begins with.
type stamp struct {
	publisher int
	seq       int64 // counted from 0 by each publisher
	sent      time.Duration
}

// epoch is what the times in payloads are counted from.
var epoch = time.Now()

// put writes the stamp into a payload.
func (s stamp) put(payload []byte) {
	binary.LittleEndian.PutUint32(payload, uint32(s.publisher))
	binary.LittleEndian.PutUint64(payload[4:], uint64(s.seq))
	binary.LittleEndian.PutUint64(payload[12:], uint64(s.sent))
}

// readStamp is not ok where the payload cannot be one of this load's publishers.
func readStamp(payload []byte, publishers int) (s stamp, ok bool) {
	if len(payload) != PayloadSize {
		return s, false
	}
	s.publisher = int(binary.LittleEndian.Uint32(payload))
	s.seq = int64(binary.LittleEndian.Uint64(payload[4:]))
	s.sent = time.Duration(binary.LittleEndian.Uint64(payload[12:]))
	return s, s.publisher < publishers
}
