package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"

	"signalbox/broker/bridges"
)

// A block is some entries in order, as they are stored:
//
//	version   1 byte
//	checksum  4 bytes, CRC-32C of what follows, big endian
//	entries   one behind the other
//
// An entry is
//
//	flags       a number: QoS and those below
//	topic       length and bytes, unless it is that of the entry before
//	mapping     the same
//	client id   the same
//	distance    in time from the entry before, in milliseconds, signed
//	properties  length and bytes, if there are any
//	expiry      distance from when it came, signed, if it expires
//	origin      the ID that it had first, if that was another one
//	attempts    if there were any
//	payload     length and bytes
//
// Numbers and lengths are varints, unsigned where nothing else is said. The first
// entry follows one without topic, mapping and client id of the time 0, which is by the
// service time of the file; that is some milliseconds (offset) ahead of the clock's, by
// which entries are in memory.
const (
	version = 1
	header  = 5

	qosMask       = 0b11
	sameTopic     = 1 << 2
	sameMapping   = 1 << 3
	sameClient    = 1 << 4
	hasProperties = 1 << 5
	retain        = 1 << 6
	hasExpiry     = 1 << 7 // flags beyond here are rare, as they make the number longer
	hasOrigin     = 1 << 8
	hasAttempts   = 1 << 9
	allFlags      = 1<<10 - 1
)

// Bounds of a block. One entry that is larger than all of them is a block.
const (
	blockEntries = 1000
	blockBytes   = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is an entry as it is stored. Origin is the ID that it had when it was put
// for the first time, 0 where it has that still: it is what MessageID is made of.
type record struct {
	*bridges.Entry
	origin uint64
}

// encoder fills a block.
type encoder struct {
	body  []byte
	count int
	last  *bridges.Entry
	// offset is how far the file's service time is ahead, in milliseconds.
	offset int64
}

// nothing is what the first entry of a block follows.
func nothing(offset int64) *bridges.Entry {
	e := &bridges.Entry{}
	e.At = -offset
	return e
}

func (e *encoder) reset() {
	e.body = append(e.body[:0], make([]byte, header)...)
	e.count, e.last = 0, nothing(e.offset)
}

// fits tells whether an entry of some size has room in the block.
func (e *encoder) fits(size int) bool {
	return e.count == 0 || e.count < blockEntries && len(e.body)+size <= blockBytes
}

func (e *encoder) add(r record) {
	flags := e.flags(r)
	b := binary.AppendUvarint(e.body, flags)
	for _, s := range [...]struct {
		same uint64
		text string
	}{{sameTopic, r.Topic}, {sameMapping, r.Mapping}, {sameClient, r.ClientID}} {
		if flags&s.same == 0 {
			b = appendBytes(b, s.text)
		}
	}
	b = binary.AppendVarint(b, r.At-e.last.At)
	if flags&hasProperties != 0 {
		b = appendBytes(b, r.Properties)
	}
	if flags&hasExpiry != 0 {
		b = binary.AppendVarint(b, r.ExpiresAt-r.At)
	}
	if flags&hasOrigin != 0 {
		b = binary.AppendUvarint(b, r.origin)
	}
	if flags&hasAttempts != 0 {
		b = binary.AppendUvarint(b, uint64(r.Attempts))
	}
	e.body = appendBytes(b, r.Payload)
	e.count++
	e.last = r.Entry
}

func (e *encoder) flags(r record) uint64 {
	flags := uint64(r.QoS & qosMask)
	for _, f := range [...]struct {
		set  bool
		flag uint64
	}{
		{r.Topic == e.last.Topic, sameTopic}, {r.Mapping == e.last.Mapping, sameMapping}, {r.ClientID == e.last.ClientID, sameClient},
		{len(r.Properties) > 0, hasProperties}, {r.Retain, retain}, {r.ExpiresAt != 0, hasExpiry}, {r.origin != 0, hasOrigin}, {r.Attempts > 0, hasAttempts},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// seal fills the header of a block that is complete.
func (e *encoder) seal() []byte {
	e.body[0] = version
	binary.BigEndian.PutUint32(e.body[1:header], crc32.Checksum(e.body[header:], castagnoli))
	return e.body
}

// The ways in which a block can be damaged.
var (
	errVersion  = errors.New("it is of a version that is not known")
	errChecksum = errors.New("its checksum is wrong")
	errFormat   = errors.New("it cannot be read")
)

// decode reads a block of so many entries, written with an offset of times. They share
// its bytes.
func decode(block []byte, count, offset int64) ([]record, error) {
	if len(block) < header || block[0] != version {
		return nil, errVersion
	}
	d := decoder{rest: block[header:], last: nothing(offset)}
	if crc32.Checksum(d.rest, castagnoli) != binary.BigEndian.Uint32(block[1:header]) {
		return nil, errChecksum
	}
	var all []record
	for len(d.rest) > 0 && !d.broken {
		r := d.entry()
		all = append(all, r)
		d.last = r.Entry
	}
	if d.broken || int64(len(all)) != count {
		return nil, errFormat
	}
	return all, nil
}

// decoder reads the entries of a block. Once something is wrong it gives zeros.
type decoder struct {
	rest   []byte
	last   *bridges.Entry
	broken bool
}

func (d *decoder) entry() record {
	flags := d.number()
	d.broken = d.broken || flags > allFlags || flags&qosMask > 2
	e := &bridges.Entry{}
	e.QoS, e.Retain = byte(flags&qosMask), flags&retain != 0
	e.Topic = d.text(flags&sameTopic != 0, d.last.Topic)
	e.Mapping = d.text(flags&sameMapping != 0, d.last.Mapping)
	e.ClientID = d.text(flags&sameClient != 0, d.last.ClientID)
	e.At = d.last.At + d.signed()
	if flags&hasProperties != 0 {
		e.Properties = d.bytes()
	}
	if flags&hasExpiry != 0 {
		e.ExpiresAt = e.At + d.signed()
	}
	r := record{Entry: e}
	if flags&hasOrigin != 0 {
		r.origin = d.number()
	}
	if flags&hasAttempts != 0 {
		n := d.number()
		d.broken = d.broken || n > math.MaxInt32
		e.Attempts = int(n)
	}
	e.Payload = d.bytes()
	return r
}

func (d *decoder) text(same bool, last string) string {
	if same {
		return last
	}
	return string(d.bytes())
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.rest)
	if !d.consume(n) {
		return 0
	}
	return v
}

func (d *decoder) signed() int64 {
	v, n := binary.Varint(d.rest)
	if !d.consume(n) {
		return 0
	}
	return v
}

// consume leaves out what was read, if it was.
func (d *decoder) consume(n int) bool {
	if n <= 0 {
		d.broken, d.rest = true, nil
		return false
	}
	d.rest = d.rest[n:]
	return true
}

// bytes reads a length and so many bytes, which nobody can append to in place.
func (d *decoder) bytes() (b []byte) {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.broken, d.rest = true, nil
		return nil
	}
	b, d.rest = d.rest[:n:n], d.rest[n:]
	return b
}
