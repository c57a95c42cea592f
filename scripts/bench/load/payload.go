//go:build linux

package load

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"time"
)

// stamp identifies a message of a load.
type stamp struct {
	publisher int
	seq       int64 // counted from 0 by each publisher
	sent      time.Duration
}

// epoch is the origin of the times in payloads.
var epoch = time.Now()

// PayloadSize is the length of a payload that is not JSON, in bytes.
const PayloadSize = 64

// padding fills a payload that is not JSON up to PayloadSize.
var padding [PayloadSize]byte

// append appends a payload with the stamp.
func (s stamp) append(b []byte, json bool) []byte {
	if json {
		return s.appendJSON(b)
	}
	begin := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.publisher))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.seq))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.sent))
	return append(b, padding[:PayloadSize-(len(b)-begin)]...)
}

// The members of a JSON payload that are its stamp, wherever they are.
const (
	publisherMember = `"publisher":`
	numberMember    = `"number":`
	sentMember      = `"sent":`
)

// appendJSON appends a payload like that of a machine: about 150 bytes.
func (s stamp) appendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"machine":{"hall":"Hall 3",`+publisherMember...), int64(s.publisher), 10)
	b = strconv.AppendInt(append(b, `},`+numberMember...), s.seq, 10)
	b = strconv.AppendInt(append(b, `,"data":{"speed":`...), speed(s.seq), 10)
	b = append(b, `,"temperature":21.25,"state":"running"},"unit":"kelvin",`+sentMember...)
	return append(strconv.AppendInt(b, int64(s.sent), 10), '}')
}

// speed returns a value up to 999 that changes from message to message.
func speed(seq int64) int64 { return seq * 7919 % 1000 }

// readStamp returns false where the payload cannot be from one of this load's
// publishers.
func readStamp(payload []byte, publishers int, json bool) (s stamp, ok bool) {
	if json {
		return readJSON(payload, publishers)
	}
	if len(payload) != PayloadSize {
		return s, false
	}
	s.publisher = int(binary.LittleEndian.Uint32(payload))
	s.seq = int64(binary.LittleEndian.Uint64(payload[4:]))
	s.sent = time.Duration(binary.LittleEndian.Uint64(payload[12:]))
	return s, s.publisher < publishers
}

// readJSON finds the stamp in a payload, or in what a stream's query has made of it. A
// member that is not selected there is 0.
func readJSON(payload []byte, publishers int) (s stamp, ok bool) {
	publisher, is := member(payload, publisherMember)
	seq, has := member(payload, numberMember)
	sent, _ := member(payload, sentMember)
	s = stamp{publisher: int(publisher), seq: seq, sent: time.Duration(sent)}
	return s, is && has && publisher < int64(publishers)
}

// member returns the number after a name.
func member(payload []byte, name string) (n int64, ok bool) {
	const most = 18 // digits that certainly fit
	_, rest, ok := bytes.Cut(payload, []byte(name))
	if !ok {
		return 0, false
	}
	for i, c := range rest {
		if c < '0' || c > '9' {
			return n, i > 0 && i <= most
		}
		n = 10*n + int64(c-'0')
	}
	return 0, false // the payload is truncated
}

// Sample returns a JSON payload as publishers send it.
func Sample() []byte { return stamp{}.appendJSON(nil) }
