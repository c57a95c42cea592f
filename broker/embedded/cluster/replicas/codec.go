package replicas

import (
	"encoding/binary"
	"errors"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/store"
	"signalbox/broker/records"
)

// version is the first byte of every request and response. A node refuses a version that it does not know.
const version = 1

// The kinds of request.
const (
	kindBegin    = 1 + iota // begin a new replica
	kindLoad                // a part of the state with which it begins
	kindComplete            // it has the whole state
	kindAppend              // changes that follow
	kindLast     = kindAppend
)

// The statuses of a response.
const (
	statusDone    = 1 + iota
	statusUnknown // the replica does not exist, or lacks something before what was sent: begin a new one
	statusAgain   // send the request from its first piece on
	statusRefused // nothing can be stored there at present
	statusEnded   // the sessions have continued from the replica
	statusLast    = statusEnded
)

// maxPiece bounds the part of a request that is sent at once, maxRequest the request as a whole: the largest
// MQTT packet, and some.
const (
	maxPiece   = 8 << 20
	maxRequest = 512 << 20
)

// errFormat means that a request or a response cannot be decoded.
var errFormat = errors.New("unknown or invalid format")

// piece is a part of a request.
type piece struct {
	kind   byte
	stream uint64 // names the replica
	total  uint64 // bytes of the request
	offset uint64
	bytes  []byte
}

func (p *piece) encode() []byte {
	b := append(make([]byte, 0, 40+len(p.bytes)), version, p.kind)
	b = binary.BigEndian.AppendUint64(b, p.stream)
	b = binary.AppendUvarint(b, p.total)
	b = binary.AppendUvarint(b, p.offset)
	return records.AppendBytes(b, p.bytes)
}

func decodePiece(b []byte) (p piece, err error) {
	r := records.Reader{Rest: b}
	if r.Byte() != version {
		r.Fail()
	}
	p.kind, p.stream, p.total, p.offset = r.Byte(), r.Uint64(), r.NumberUpTo(maxRequest), r.NumberUpTo(maxRequest)
	p.bytes = r.Bytes()
	if p.kind < kindBegin || p.kind > kindLast || p.offset+uint64(len(p.bytes)) > p.total || !r.Done() {
		return p, errFormat
	}
	return p, nil
}

// encodeStatus encodes a response.
func encodeStatus(status byte) []byte { return []byte{version, status} }

func decodeStatus(b []byte) (status byte, err error) {
	if len(b) != 2 || b[0] != version || b[1] < statusDone || b[1] > statusLast {
		return 0, errFormat
	}
	return b[1], nil
}

// batch is the body of a request: encoded changes with consecutive numbers. In a load these are counted from 1
// on, in an append they are positions.
type batch struct {
	first   uint64
	changes [][]byte
}

func (t *batch) encode() []byte {
	size := 20
	for _, c := range t.changes {
		size += len(c) + binary.MaxVarintLen32
	}
	b := binary.AppendUvarint(make([]byte, 0, size), t.first)
	b = binary.AppendUvarint(b, uint64(len(t.changes)))
	for _, c := range t.changes {
		b = records.AppendBytes(b, c)
	}
	return b
}

// maxPosition bounds positions, so that adding to them cannot overflow.
const maxPosition = 1 << 62

// decodeBatch decodes a batch. The changes are decoded by decodeFrom.
func decodeBatch(b []byte) (t batch, err error) {
	r := records.Reader{Rest: b}
	t.first = r.NumberUpTo(maxPosition)
	for range r.Count(1) {
		t.changes = append(t.changes, r.Bytes())
	}
	if !r.Done() || t.first == 0 || len(t.changes) == 0 {
		return batch{}, errFormat
	}
	return t, nil
}

// last returns the number of the last changes.
func (t *batch) last() uint64 { return t.first + uint64(len(t.changes)) - 1 }

// decodeFrom decodes the changes from a number on.
func (t *batch) decodeFrom(number uint64) (group []*engine.Changes, err error) {
	for i := max(t.first, number) - t.first; i < uint64(len(t.changes)); i++ {
		part, err := store.DecodeChanges(t.changes[i])
		if err != nil {
			return nil, err
		}
		group = append(group, part...)
	}
	return group, nil
}

// encodeChanges encodes changes for a batch.
func encodeChanges(c *engine.Changes) []byte { return store.AppendChanges(nil, []*engine.Changes{c}) }
