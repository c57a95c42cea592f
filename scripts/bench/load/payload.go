//go:build linux

package load

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"time"
)

// stamp is what tells a message from all others of a load.
type stamp struct {
	publisher int
	seq       int64 // counted from 0 by each publisher
	sent      time.Duration
}

// epoch is what the times in payloads are counted from.
var epoch = time.Now()

// PayloadSize is the length of a message that is no JSON, in bytes.
const PayloadSize = 64

// padding fills a message up that is no JSON.
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

// The members of a JSON payload that make its stamp, wherever they are.
const (
	publisherMember = `"publisher":`
	numberMember    = `"number":`
	sentMember      = `"sent":`
)

// appendJSON appends what a machine might tell of itself: about 150 bytes.
func (s stamp) appendJSON(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"machine":{"hall":"Hall 3",`+publisherMember...), int64(s.publisher), 10)
	b = strconv.AppendInt(append(b, `},`+numberMember...), s.seq, 10)
	b = strconv.AppendInt(append(b, `,"data":{"speed":`...), speed(s.seq), 10)
	b = append(b, `,"temperature":21.25,"state":"running"},"unit":"kelvin",`+sentMember...)
	return append(strconv.AppendInt(b, int64(s.sent), 10), '}')
}

// speed is a member that changes from message to message, up to 999.
func speed(seq int64) int64 { return seq * 7919 % 1000 }

// readStamp is not ok where the payload cannot be one of this load's publishers.
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

// readJSON finds the stamp in a payload, or in what a stream has made of it.
// What is not selected there is nought.
func readJSON(payload []byte, publishers int) (s stamp, ok bool) {
	publisher, is := member(payload, publisherMember)
	seq, has := member(payload, numberMember)
	sent, _ := member(payload, sentMember)
	s = stamp{publisher: int(publisher), seq: seq, sent: time.Duration(sent)}
	return s, is && has && publisher < int64(publishers)
}

// member reads the digits after a name.
func member(payload []byte, name string) (n int64, ok bool) {
	const most = 18 // digits that fit for certain
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
	return 0, false // it is cut short
}

// Sample is a payload of JSON as publishers send it.
func Sample() []byte { return stamp{}.appendJSON(nil) }
