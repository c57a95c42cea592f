package cluster

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxChunk bounds a chunk of a section.
const maxChunk = 64 << 10

// A section is a part of a snapshot that ends by itself: chunks, each after its length (4 bytes, big
// endian), and a length of 0. In the snapshot of a cluster that shares the data of the platform, the
// machine's part and that of the Shared are sections, so that either can be restored alone.
func writeSection(w io.Writer, from io.WriterTo) error {
	b := bufio.NewWriterSize(chunkWriter{w}, maxChunk)
	if _, err := from.WriteTo(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	_, err := w.Write(make([]byte, 4))
	return err
}

// chunkWriter writes chunks.
type chunkWriter struct{ w io.Writer }

// Write writes p as one or more chunks.
func (c chunkWriter) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		chunk := p[:min(len(p), maxChunk)]
		if _, err := c.w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(chunk)))); err != nil {
			return written, err
		}
		n, err := c.w.Write(chunk)
		written += n
		if err != nil {
			return written, err
		}
		p = p[len(chunk):]
	}
	return written, nil
}

// sectionReader reads one section, and nothing behind it.
type sectionReader struct {
	r     io.Reader
	left  int // of the current chunk
	ended bool
}

// Read reads from the section. A section without an end is an io.ErrUnexpectedEOF.
func (s *sectionReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := s.next(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	if errors.Is(err, io.EOF) {
		err = nil // next finds out whether the end is that of the section
		if n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// next begins the next chunk unless one has begun. At the end of the section it returns io.EOF.
func (s *sectionReader) next() error {
	if s.ended {
		return io.EOF
	}
	if s.left > 0 {
		return nil
	}
	var length [4]byte
	if _, err := io.ReadFull(s.r, length[:]); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	switch size := binary.BigEndian.Uint32(length[:]); {
	case size > maxChunk:
		return errSnapshot
	case size == 0:
		s.ended = true
		return io.EOF
	default:
		s.left = int(size)
	}
	return nil
}

// readSection has a section read, and skips what is left of it.
func readSection(r io.Reader, read func(io.Reader) error) error {
	s := &sectionReader{r: r}
	if err := read(s); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, s); err != nil {
		return fmt.Errorf("read a section of a snapshot: %w", err)
	}
	return nil
}
