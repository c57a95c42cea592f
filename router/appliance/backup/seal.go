package backup

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
)

// seal is the end of the zstd stream: a skippable frame (RFC 8878 §3.1.2) with the
// SHA-256 of all bytes before it. Other programs ignore it; it covers what zstd's own
// checksum does not, such as the headers of frames.
var sealHeader = []byte{0x5e, 0x2a, 0x4d, 0x18, sha256.Size, 0, 0, 0}

const sealBytes = 8 + sha256.Size

// sealWriter appends the seal when it is closed.
type sealWriter struct {
	to  io.Writer
	sum hash.Hash
}

func newSealWriter(to io.Writer) *sealWriter { return &sealWriter{to, sha256.New()} }

// Write implements [io.Writer].
func (s *sealWriter) Write(b []byte) (int, error) {
	s.sum.Write(b)
	return s.to.Write(b)
}

// Close writes the seal; it does not close the writer below.
func (s *sealWriter) Close() error {
	_, err := s.to.Write(s.sum.Sum(append([]byte(nil), sealHeader...)))
	return err
}

// sealReader reads what is before the seal, and checks that at its end.
type sealReader struct {
	from *bufio.Reader
	sum  hash.Hash
}

func newSealReader(from io.Reader) *sealReader {
	return &sealReader{bufio.NewReaderSize(from, 64<<10), sha256.New()}
}

// Read implements [io.Reader]. It returns io.EOF only if the seal is right.
func (s *sealReader) Read(b []byte) (int, error) {
	ahead, err := s.from.Peek(s.from.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	n := min(len(ahead)-sealBytes, len(b))
	if n > 0 {
		n = copy(b[:n], ahead)
		s.sum.Write(ahead[:n])
		_, err := s.from.Discard(n)
		return n, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	if string(ahead) != string(s.sum.Sum(append([]byte(nil), sealHeader...))) {
		return 0, damaged("its last bytes do not fit to those before", nil)
	}
	return 0, io.EOF
}
