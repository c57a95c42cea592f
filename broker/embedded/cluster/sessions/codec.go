package sessions

import (
	"encoding/binary"
	"errors"
	"math"
)

// version is the first byte of every request and response. A node does not respond to a
// version that it does not know.
const version = 1

// The kinds of request.
const (
	kindClaim   = 1 + iota // offer the session of a client id
	kindFetch              // send a chunk of its queue
	kindConfirm            // drop it: it was imported
	kindCancel             // keep it: the transfer was cancelled
	kindStatus             // was the offered session imported?
	kindFlush              // wait until other nodes have received all messages
	kindList               // list the sessions
	kindPull               // take over a session that yields
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
type reader struct {
	b      []byte
	failed bool
}

// newReader returns a reader behind the version and kind.
func newReader(b []byte) (r *reader, kind byte) {
	r = &reader{b: b}
	if r.byte() != version {
		r.fail()
	}
	return r, r.byte()
}

func (r *reader) fail() {
	r.failed, r.b = true, nil
}

// finish returns an error unless everything was decoded and nothing is left.
func (r *reader) finish() error {
	if r.failed || len(r.b) > 0 {
		return errFormat
	}
	return nil
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) signed() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// upTo decodes a number that must not exceed a limit.
func (r *reader) upTo(limit uint64) uint64 {
	v := r.number()
	if v > limit {
		r.fail()
		return 0
	}
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bool() bool {
	v := r.byte()
	if v > 1 {
		r.fail()
	}
	return v == 1
}

// bytes decodes bytes without copying them.
func (r *reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	if len(v) == 0 {
		return nil
	}
	return v
}

func (r *reader) text() string { return string(r.bytes()) }

// count decodes the number of elements that follow, given their minimum size.
func (r *reader) count(size int) int {
	n := r.number()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

// maxSeq bounds sequence numbers, so that adding to them cannot overflow.
const maxSeq = math.MaxInt64 / 2
