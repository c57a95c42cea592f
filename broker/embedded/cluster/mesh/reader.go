package mesh

import (
	"encoding/binary"
	"io"
)

// readSize is how much is read at once. The buffer of a larger frame grows with
// what has arrived of it.
const readSize = 64 << 10

// reader cuts what comes over a link into frames.
type reader struct {
	from  io.Reader
	buf   []byte
	begin int // of what is not given yet
	end   int
	bytes int64 // read in all
}

func newReader(from io.Reader) *reader { return &reader{from: from, buf: make([]byte, readSize)} }

// next gives a frame that is there as a whole, if there is one. Its body is valid
// until the next fill.
func (r *reader) next() (kind byte, body []byte, ok bool, err error) {
	there := r.buf[r.begin:r.end]
	if len(there) < headSize {
		return 0, nil, false, nil
	}
	n := int64(binary.BigEndian.Uint32(there[1:]))
	if n > maxFrame {
		return 0, nil, false, errFrame
	}
	if n+headSize > int64(len(there)) {
		return 0, nil, false, nil
	}
	r.begin += headSize + int(n)
	return there[0], there[headSize : headSize+n], true, nil
}

// fill waits for more.
func (r *reader) fill() error {
	r.makeRoom()
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

// makeRoom moves what is left to the front, if there is something before it: of a
// buffer twice as long where it fills this one, and of an ordinary one again where
// it is short.
func (r *reader) makeRoom() {
	left, size := r.end-r.begin, len(r.buf)
	switch {
	case left == size:
		size *= 2
	case r.begin == 0 && left > 0:
		return
	case left < readSize/2:
		size = readSize
	}
	to := r.buf
	if size != len(r.buf) {
		to = make([]byte, size)
	}
	copy(to, r.buf[r.begin:r.end])
	r.buf, r.begin, r.end = to, 0, left
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
