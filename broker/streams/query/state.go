package query

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// State is the running values of a query's aggregates, and the room that
// running it needs. One goroutine at a time uses it.
type State struct {
	fingerprint uint64
	aggregates  []aggregate

	bucket  int64 // its start, in epoch milliseconds
	count   int64 // of messages in it, 0 where there is no bucket yet
	running []running

	scanner scanner
	text    []byte // room for what a condition compares
}

// NewState makes a state without any message.
func (q *Query) NewState() *State {
	return &State{
		fingerprint: q.fingerprint,
		aggregates:  q.aggregates,
		running:     make([]running, len(q.aggregates)),
		scanner:     scanner{spans: make([]span, q.slots)},
	}
}

// The kept form of a state: its version, the fingerprint (8 bytes), the start of
// the bucket and the count of its messages (varints), each aggregate but a
// count, and a checksum of all that (4 bytes). Numbers of fixed size are little
// endian. An extreme is its text behind its length (varint); a sum is 0 and an
// integer (varint), or 1 and two floats (8 bytes each).
const (
	version  = 1
	checksum = 4
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Append appends the state in a form that Restore reads.
func (s *State) Append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, version)
	dst = binary.LittleEndian.AppendUint64(dst, s.fingerprint)
	dst = binary.AppendVarint(dst, s.bucket)
	dst = binary.AppendVarint(dst, s.count)
	for i, a := range s.aggregates {
		switch r := &s.running[i]; a.function {
		case adding:
			dst = r.sum.keep(dst)
		case lowest, highest:
			dst = binary.AppendUvarint(dst, uint64(len(r.extreme)))
			dst = append(dst, r.extreme...)
		}
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[from:], table))
}

// keep appends a sum.
func (s sum) keep(dst []byte) []byte {
	if !s.float {
		return binary.AppendVarint(append(dst, 0), s.whole)
	}
	dst = binary.LittleEndian.AppendUint64(append(dst, 1), math.Float64bits(s.value))
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(s.rest))
}

// Restore reads what Append wrote. It gives false and a new state where that is
// of a query that aggregates something else, or is damaged.
func (q *Query) Restore(b []byte) (*State, bool) {
	body, ok := intact(b)
	if !ok {
		return q.NewState(), false
	}
	s, r := q.NewState(), reader{rest: body}
	if r.byte() != version || r.uint64() != q.fingerprint {
		return s, false
	}
	s.bucket, s.count = r.varint(), r.varint()
	for i, a := range q.aggregates {
		s.running[i] = r.running(a, s.count)
	}
	if r.broken || len(r.rest) > 0 || s.count < 0 {
		return q.NewState(), false
	}
	return s, true
}

// intact gives what the checksum covers, if it is right.
func intact(b []byte) (body []byte, ok bool) {
	if len(b) < checksum {
		return nil, false
	}
	body = b[:len(b)-checksum]
	return body, crc32.Checksum(body, table) == binary.LittleEndian.Uint32(b[len(body):])
}

// reader reads a kept state. Once broken, it reads zeros.
type reader struct {
	rest   []byte
	broken bool
}

// cut gives the next n bytes.
func (r *reader) cut(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.rest, r.broken = nil, true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.cut(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.cut(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		n = -1
	}
	r.cut(n)
	return v
}

// running reads an aggregate. Without messages there is no extreme.
func (r *reader) running(a aggregate, count int64) (v running) {
	switch a.function {
	case adding:
		v.sum = r.sum()
	case lowest, highest:
		v.extreme = r.extreme()
		r.broken = r.broken || (len(v.extreme) > 0) != (count > 0)
	}
	return v
}

// extreme reads a number that it makes sure is one.
func (r *reader) extreme() []byte {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > longest {
		r.broken = true
		return nil
	}
	r.cut(size)
	text := append([]byte(nil), r.cut(int(n))...)
	if scan := (scanner{text: text}); len(text) > 0 && !(scan.number() && scan.pos == len(text)) {
		r.broken = true
	}
	return text
}

func (r *reader) sum() (s sum) {
	switch r.byte() {
	case 0:
		s.whole = r.varint()
	case 1:
		s = sum{float: true, value: math.Float64frombits(r.uint64()), rest: math.Float64frombits(r.uint64())}
		r.broken = r.broken || !s.finite()
	default:
		r.broken = true
	}
	return s
}
