package query

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"slices"

	"signalbox/broker/records"
)

// State holds the running values of a query's aggregates and the buffers that a
// run needs. It must not be used by two goroutines at once.
type State struct {
	fingerprint uint64
	aggregates  []aggregate

	bucket  int64 // start in epoch milliseconds
	count   int64 // messages in the bucket, 0 before the first bucket
	running []running

	scanner scanner
	scratch []byte // buffer for the left side of a condition
}

// NewState returns a state without messages.
func (q *Query) NewState() *State {
	return &State{
		fingerprint: q.fingerprint,
		aggregates:  q.aggregates,
		running:     make([]running, len(q.aggregates)),
		scanner:     scanner{spans: make([]span, q.slots)},
	}
}

// The stored form of a state: its version, the fingerprint (8 bytes), the start
// of the bucket and the count of its messages (varints), each aggregate except
// counts, and a checksum of all that (4 bytes). Numbers of fixed size are
// little endian. An extreme is its length (varint) and its text. A sum is 0 and
// an integer (varint), or one less than the number of its floats, of which there
// are at least two, and the floats (8 bytes each), the greatest first.
const (
	version  = 1
	checksum = 4
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Append appends the stored form of the state, which Restore reads.
func (s *State) Append(dst []byte) []byte {
	from := len(dst)
	dst = append(dst, version)
	dst = binary.LittleEndian.AppendUint64(dst, s.fingerprint)
	dst = binary.AppendVarint(dst, s.bucket)
	dst = binary.AppendVarint(dst, s.count)
	for i, a := range s.aggregates {
		switch r := &s.running[i]; a.function {
		case functionSum:
			dst = r.sum.keep(dst)
		case functionMin, functionMax:
			dst = binary.AppendUvarint(dst, uint64(len(r.extreme)))
			dst = append(dst, r.extreme...)
		}
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[from:], table))
}

// keep appends the stored form of a sum.
func (s sum) keep(dst []byte) []byte {
	if !s.float {
		return binary.AppendVarint(append(dst, 0), s.whole)
	}
	n := max(len(s.floats), 2)
	dst = append(dst, byte(n-1))
	for i := range n {
		part := 0.0
		if i < len(s.floats) {
			part = s.floats[len(s.floats)-1-i]
		}
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(part))
	}
	return dst
}

// Restore reads the stored form of a state. If that is damaged or belongs to a
// query with other aggregates, Restore returns a new state and false.
func (q *Query) Restore(b []byte) (*State, bool) {
	body, ok := intact(b)
	if !ok {
		return q.NewState(), false
	}
	s, r := q.NewState(), reader{records.Reader{Rest: body}}
	if r.Byte() != version || r.uint64() != q.fingerprint {
		return s, false
	}
	s.bucket, s.count = r.Signed(), r.Signed()
	for i, a := range q.aggregates {
		s.running[i] = r.running(a, s.count)
	}
	if !r.Done() || s.count < 0 {
		return q.NewState(), false
	}
	return s, true
}

// intact returns the bytes that the checksum covers, if it matches.
func intact(b []byte) (body []byte, ok bool) {
	if len(b) < checksum {
		return nil, false
	}
	body = b[:len(b)-checksum]
	return body, crc32.Checksum(body, table) == binary.LittleEndian.Uint32(b[len(body):])
}

// reader reads the stored form of a state.
type reader struct{ records.Reader }

// uint64 reads eight bytes, the least significant first.
func (r *reader) uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// running reads an aggregate. There is an extreme exactly if there are
// messages.
func (r *reader) running(a aggregate, count int64) (v running) {
	switch a.function {
	case functionSum:
		v.sum = r.sum()
	case functionMin, functionMax:
		v.extreme = r.extreme()
		r.Broken = r.Broken || (len(v.extreme) > 0) != (count > 0)
	}
	return v
}

// extreme reads a number, and validates it.
func (r *reader) extreme() []byte {
	text := append([]byte(nil), r.Take(int(r.NumberUpTo(maxNumber)))...)
	if scan := (scanner{text: text}); len(text) > 0 && !(scan.number() && scan.pos == len(text)) {
		r.Broken = true
	}
	return text
}

func (r *reader) sum() (s sum) {
	n := int(r.Byte())
	if n == 0 {
		s.whole = r.Signed()
		return s
	}
	if n >= maxParts { // one less than their number
		r.Broken = true
		return s
	}
	s = sum{float: true, floats: make(expansion, n+1)}
	for i := range s.floats {
		s.floats[n-i] = math.Float64frombits(r.uint64())
	}
	r.Broken = r.Broken || !s.floats.finite()
	s.floats = slices.DeleteFunc(s.floats, func(part float64) bool { return part == 0 })
	return s
}
