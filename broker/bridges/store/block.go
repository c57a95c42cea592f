package store

import (
	"encoding/binary"
	"math"

	"signalbox/broker/bridges"
	"signalbox/broker/records"
	"signalbox/broker/storage"
)

// A block (see [storage.OpenBlock]) is some entries in order, as they are stored. Each is
//
//	flags       a number: QoS and those below
//	topic       length and bytes, unless it is that of the entry before
//	mapping     the same
//	client id   the same
//	distance    in time from the entry before, in milliseconds, signed
//	properties  length and bytes, if there are any
//	expiry      distance from the time of arrival, signed, if it expires
//	origin      its first ID, if that was another one
//	attempts    if there were any
//	payload     length and bytes
//
// Numbers and lengths are varints, unsigned unless stated. The first entry follows one without
// topic, mapping and client id, with time 0. Times are the service time of the file, which is
// offset milliseconds ahead of the clock that entries in memory use.
const (
	qosMask       = 0b11
	sameTopic     = 1 << 2
	sameMapping   = 1 << 3
	sameClient    = 1 << 4
	hasProperties = 1 << 5
	retain        = 1 << 6
	hasExpiry     = 1 << 7 // flags from here on are rare, because they lengthen the varint
	hasOrigin     = 1 << 8
	hasAttempts   = 1 << 9
	allFlags      = 1<<10 - 1
)

// Bounds of a block. One entry that is larger than all of them is a block.
const (
	blockEntries = 1000
	blockBytes   = 256 << 10
)

// record is a stored entry. Origin is the ID that it had when it was first put, 0 if that is
// still its ID; MessageID is made from it.
type record struct {
	*bridges.Entry
	origin uint64
}

// encoder fills a block.
type encoder struct {
	body  []byte
	count int
	last  *bridges.Entry
	// offset is how far the file's service time is ahead of the clock, in milliseconds.
	offset int64
}

// predecessor returns the predecessor of the first entry of a block.
func predecessor(offset int64) *bridges.Entry {
	e := &bridges.Entry{}
	e.At = -offset
	return e
}

func (e *encoder) reset() {
	e.body = append(e.body[:0], make([]byte, storage.BlockHeader)...)
	e.count, e.last = 0, predecessor(e.offset)
}

// fits reports whether an entry of some size fits into the block.
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
			b = records.AppendBytes(b, s.text)
		}
	}
	b = binary.AppendVarint(b, r.At-e.last.At)
	if flags&hasProperties != 0 {
		b = records.AppendBytes(b, r.Properties)
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
	e.body = records.AppendBytes(b, r.Payload)
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

// seal completes the block.
func (e *encoder) seal() []byte { return storage.SealBlock(e.body) }

// decode decodes a block of count entries that was written with an offset of times. The entries
// share its memory.
func decode(block []byte, count, offset int64) ([]record, error) {
	r, err := storage.OpenBlock(block)
	if err != nil {
		return nil, err
	}
	d := decoder{Reader: r, last: predecessor(offset)}
	var all []record
	for len(d.Rest) > 0 && !d.Broken {
		r := d.entry()
		all = append(all, r)
		d.last = r.Entry
	}
	if d.Broken || int64(len(all)) != count {
		return nil, storage.ErrBlockFormat
	}
	return all, nil
}

// decoder decodes the entries of a block.
type decoder struct {
	records.Reader
	last *bridges.Entry
}

func (d *decoder) entry() record {
	flags := d.Number()
	d.Broken = d.Broken || flags > allFlags || flags&qosMask > 2
	e := &bridges.Entry{}
	e.QoS, e.Retain = byte(flags&qosMask), flags&retain != 0
	e.Topic = d.text(flags&sameTopic != 0, d.last.Topic)
	e.Mapping = d.text(flags&sameMapping != 0, d.last.Mapping)
	e.ClientID = d.text(flags&sameClient != 0, d.last.ClientID)
	e.At = d.last.At + d.Signed()
	if flags&hasProperties != 0 {
		e.Properties = d.Bytes()
	}
	if flags&hasExpiry != 0 {
		e.ExpiresAt = e.At + d.Signed()
	}
	r := record{Entry: e}
	if flags&hasOrigin != 0 {
		r.origin = d.Number()
	}
	if flags&hasAttempts != 0 {
		n := d.Number()
		d.Broken = d.Broken || n > math.MaxInt32
		e.Attempts = int(n)
	}
	e.Payload = d.Bytes()
	return r
}

func (d *decoder) text(same bool, last string) string {
	if same {
		return last
	}
	return string(d.Bytes())
}
