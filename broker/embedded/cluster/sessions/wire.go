package sessions

import (
	"encoding/binary"
	"errors"
	"math"
)

// version begins every request and answer. A node that does not know it does not
// answer.
const version = 1

// The kinds of request.
const (
	kindClaim  = 1 + iota // give the session of a client id
	kindFetch             // give what waits for it
	kindDone              // forget it
	kindKeep              // keep it after all
	kindStatus            // has the session that was given arrived?
	kindFlush             // see to it that other nodes have all messages from there
	kindList              // which client ids are there?
	kindPull              // take over a session that is behind
)

// errFormat tells that a request or an answer cannot be read.
var errFormat = errors.New("not in a format that this node knows")

// writer and reader put values into bytes: numbers as varints, strings with their
// length before them.
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

// reader stops at the first value that cannot be read; what it gives from then on
// is zero.
type reader struct {
	b      []byte
	failed bool
}

// newReader begins to read what has a version before its kind.
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

// finish tells whether everything was read, and nothing is left.
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

// upTo gives a number that must not be greater than a limit.
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

// bytes gives a part of what is read.
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

// count gives the number of elements that follow, of a size at least.
func (r *reader) count(size int) int {
	n := r.number()
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

// maxSeq bounds sequence numbers, so that those to come can be counted from them.
const maxSeq = math.MaxInt64 / 2
