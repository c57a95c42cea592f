package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxChunk bounds what is written of a snapshot at once.
const maxChunk = 1 << 20

// chunks writes something whose end can be told: each chunk behind its length in
// four bytes, and a length of zero.
type chunks struct {
	to      io.Writer
	written int64
}

// Write writes chunks.
func (c *chunks) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), maxChunk)]
		if err := c.put(part); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

// end writes the end.
func (c *chunks) end() error { return c.put(nil) }

func (c *chunks) put(part []byte) error {
	n, err := c.to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(part))), part...))
	c.written += int64(n)
	return err
}

// chunkReader reads what chunks has written.
type chunkReader struct {
	from io.Reader
	left uint32
	over bool
}

// Read reads from the chunk it is in, or begins the next one.
func (c *chunkReader) Read(p []byte) (int, error) {
	if c.left == 0 && !c.over {
		var size [4]byte
		if _, err := io.ReadFull(c.from, size[:]); err != nil {
			return 0, fmt.Errorf("read a snapshot: %w", io.ErrUnexpectedEOF)
		}
		c.left = binary.BigEndian.Uint32(size[:])
		c.over = c.left == 0
	}
	if c.over {
		return 0, io.EOF
	}
	n, err := c.from.Read(p[:min(len(p), int(c.left))])
	c.left -= uint32(n)
	if errors.Is(err, io.EOF) && c.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
