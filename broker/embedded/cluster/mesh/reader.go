package mesh

import (
	"encoding/binary"
	"io"
)

// readSize is the size of a read. The buffer of a larger frame grows with what has arrived of
// it.
const readSize = 64 << 10

// reader splits a stream into frames.
type reader struct {
	from  io.Reader
	buf   []byte
	start int // of what was not returned yet
	end   int
	bytes int64 // read in total
}

func newReader(from io.Reader) *reader { return &reader{from: from, buf: make([]byte, readSize)} }

// next returns the next frame if all of it was read. Its body is valid until the next fill.
func (r *reader) next() (kind byte, body []byte, ok bool, err error) {
	available := r.buf[r.start:r.end]
	if len(available) < headerSize {
		return 0, nil, false, nil
	}
	n := int64(binary.BigEndian.Uint32(available[1:]))
	if n > maxFrame {
		return 0, nil, false, errFrame
	}
	if n+headerSize > int64(len(available)) {
		return 0, nil, false, nil
	}
	r.start += headerSize + int(n)
	return available[0], available[headerSize : headerSize+n], true, nil
}

// fill reads more.
func (r *reader) fill() error {
	r.grow()
	n, err := r.from.Read(r.buf[r.end:])
	r.end += n
	r.bytes += int64(n)
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// grow makes space in the buffer: it moves the rest to the front, doubles a full buffer, and
// shrinks one that holds little.
func (r *reader) grow() {
	left, size := r.end-r.start, len(r.buf)
	switch {
	case left == size:
		size *= 2
	case r.start == 0 && left > 0:
		return
	case left < readSize/2:
		size = readSize
	}
	to := r.buf
	if size != len(r.buf) {
		to = make([]byte, size)
	}
	copy(to, r.buf[r.start:r.end])
	r.buf, r.start, r.end = to, 0, left
}

// frame waits for a frame.
func (r *reader) frame() (kind byte, body []byte, err error) {
	for {
		kind, body, ok, err := r.next()
		if ok || err != nil {
			return kind, body, err
		}
		if err := r.fill(); err != nil {
			return 0, nil, err
		}
	}
}
