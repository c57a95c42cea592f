package packet

import (
	"errors"
	"io"
)

// maxLength is the longest packet that a Reader accepts, in bytes after its first byte
// and length.
const maxLength = 1 << 24

// errMalformed is returned for a length of more than four bytes [MQTT-2.2.3], or above
// maxLength.
var errMalformed = errors.New("the length of a packet is malformed or too large")

// Reader splits a stream into packets. It fills its buffer with each read, and copies
// only what it has to.
type Reader struct {
	src        io.Reader
	buf        []byte
	begin, end int // bounds of what was read but not yet returned
}

// NewReader returns a Reader of src with a buffer of that many bytes, which grows for a
// longer packet.
func NewReader(src io.Reader, size int) *Reader {
	return &Reader{src: src, buf: make([]byte, size)}
}

// Next returns the next packet. Its body is valid until the next call.
func (r *Reader) Next() (first byte, body []byte, err error) {
	for {
		head, length, ok, err := r.peek()
		if err != nil {
			return 0, nil, err
		}
		if ok {
			first = r.buf[r.begin]
			body = r.buf[r.begin+head : r.begin+head+length]
			r.begin += head + length
			return first, body, nil
		}
		if err := r.fill(head + length); err != nil {
			return 0, nil, err
		}
	}
}

// More reports whether Next would return without reading.
func (r *Reader) More() bool {
	_, _, ok, err := r.peek()
	return ok || err != nil
}

// peek returns the lengths of the header and of the body of the packet at the beginning
// of the buffer, and whether it is complete. Unknown lengths are 0.
func (r *Reader) peek() (head, length int, ok bool, err error) {
	const most = 5 // one byte, and up to four of the length
	have := r.buf[r.begin:r.end]
	for i := 1; i < min(len(have), most); i++ {
		length |= int(have[i]&0x7f) << (7 * (i - 1))
		if have[i]&0x80 != 0 {
			continue
		}
		if length > maxLength {
			return 0, 0, false, errMalformed
		}
		return i + 1, length, len(have) >= i+1+length, nil
	}
	if len(have) >= most {
		return 0, 0, false, errMalformed
	}
	return 0, 0, false, nil
}

// fill reads more, after making space for a packet of that many bytes.
func (r *Reader) fill(need int) error {
	if r.begin == r.end {
		r.begin, r.end = 0, 0
	}
	if r.end == len(r.buf) || r.begin+need > len(r.buf) {
		r.makeSpace(need)
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	if errors.Is(err, io.EOF) && r.begin < r.end {
		return io.ErrUnexpectedEOF
	}
	return err
}

// makeSpace moves the unread bytes to the front of the buffer, or of a longer one.
func (r *Reader) makeSpace(need int) {
	to := r.buf
	if need = max(need, r.end-r.begin+1); need > len(to) {
		to = make([]byte, 2*need)
	}
	r.end = copy(to, r.buf[r.begin:r.end])
	r.begin, r.buf = 0, to
}
