package sessions

import (
	"encoding/binary"
	"errors"
	"math"

	"signalbox/broker/records"
)

// version is the first byte of every request and response. A node does not respond to a
// version that it does not know.
const version = 1

// The kinds of request.
const (
	kindClaim       = 1 + iota // offer the session of a client id
	kindFetch                  // send a chunk of its queue
	kindConfirm                // drop it: it was imported
	kindCancel                 // keep it: the transfer was cancelled
	kindStatus                 // was the offered session imported?
	kindFlush                  // wait until other nodes have received all messages
	kindList                   // list the sessions
	kindPull                   // take over a session that yields
	kindReceive                // take over a session whose node stops
	kindStop                   // do not wait for the node: it stops
	kindClaimWill              // claim that is not a client's: the Will is part of the offer; nodes of older releases refuse it
	kindReceiveWill            // receive with kindClaimWill; refused by the same nodes
	kindReceived               // what has the offered session received, and which messages of some nodes? Refused by nodes of older releases
)

// errFormat means that a request or response cannot be decoded.
var errFormat = errors.New("unknown or invalid format")

// writer encodes numbers as varints, and strings and bytes with their length first.
type writer struct{ b []byte }

func newWriter(kind byte) *writer { return &writer{b: []byte{version, kind}} }

func (w *writer) number(n uint64) { w.b = binary.AppendUvarint(w.b, n) }
func (w *writer) signed(n int64)  { w.b = binary.AppendVarint(w.b, n) }
func (w *writer) byte(n byte)     { w.b = append(w.b, n) }
func (w *writer) text(s string)   { w.number(uint64(len(s))); w.b = append(w.b, s...) }
func (w *writer) bytes(p []byte)  { w.number(uint64(len(p))); w.b = append(w.b, p...) }

func (w *writer) bool(v bool) {
	if v {
		w.byte(1)
	} else {
		w.byte(0)
	}
}

// reader decodes. After the first failure, all further values are zero.
type reader struct{ records.Reader }

// newReader returns a reader behind the version and kind.
func newReader(b []byte) (r *reader, kind byte) {
	r = &reader{records.Reader{Rest: b}}
	if r.Byte() != version {
		r.Fail()
	}
	return r, r.Byte()
}

// finish returns an error unless everything was decoded and nothing is left.
func (r *reader) finish() error {
	if !r.Done() {
		return errFormat
	}
	return nil
}

// bytes decodes bytes without copying them; none are nil.
func (r *reader) bytes() []byte {
	if b := r.Bytes(); len(b) > 0 {
		return b
	}
	return nil
}

// maxSeq bounds sequence numbers, so that adding to them cannot overflow.
const maxSeq = math.MaxInt64 / 2
