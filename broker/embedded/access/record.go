package access

import "encoding/binary"

// maxRow bounds the bytes of a row, as SQLite does.
const maxRow = 1_000_000_000

// column is a column of a record: a text, an integer, or null.
type column struct {
	text   []byte
	number int64
	null   bool
}

// optional returns the text, or nil for null.
func (c column) optional() *string {
	if c.null {
		return nil
	}
	s := string(c.text)
	return &s
}

// decodeRecord reads the columns of a record, all of them.
func decodeRecord(record []byte, row []column) error {
	size, n := varint(record)
	if n == 0 || size < uint64(n) || size > uint64(len(record)) {
		return errPage
	}
	types, body := record[n:size], record[size:]
	for i := range row {
		kind, n := varint(types)
		if n == 0 {
			return errPage
		}
		types = types[n:]
		var ok bool
		if body, ok = row[i].decode(kind, body); !ok {
			return errPage
		}
	}
	if len(types) > 0 {
		return errPage
	}
	return nil
}

// integerBytes are the sizes of integers by their type.
var integerBytes = [...]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

// decode reads a column of a type, and returns what follows it.
func (c *column) decode(kind uint64, body []byte) (rest []byte, ok bool) {
	const null, integers, zero, one, text = 0, 6, 8, 9, 13 // a text has the odd numbers from 13 on
	*c = column{null: kind == null}
	n := 0
	switch {
	case kind == null:
	case kind <= integers:
		if n = integerBytes[kind]; n <= len(body) {
			c.number = bigEndian(body[:n])
		}
	case kind == zero || kind == one:
		c.number = int64(kind - zero)
	case kind >= text && kind%2 == 1 && (kind-text)/2 <= uint64(len(body)):
		n = int((kind - text) / 2)
		c.text = body[:n:n]
	default:
		return nil, false
	}
	if n > len(body) {
		return nil, false
	}
	return body[n:], true
}

// bigEndian returns the integer of up to eight bytes.
func bigEndian(b []byte) int64 {
	var padded [8]byte
	copy(padded[8-len(b):], b)
	n := int64(binary.BigEndian.Uint64(padded[:]))
	unused := 8 * (8 - len(b))
	return n << unused >> unused // extends the sign
}

// varint returns the integer at the beginning of b, and how many bytes it has, 0 if b ends within it.
func varint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	for i := range min(len(b), 9) {
		if i == 8 {
			return v<<8 | uint64(b[i]), 9
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
