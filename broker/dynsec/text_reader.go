package dynsec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"signalbox/broker"
)

// textReader passes text on, counts its lines, and ends with an error where it is not UTF-8: a
// document of any size is read without being in memory.
type textReader struct {
	from  io.Reader
	ends  int // line ends that were passed on
	begun []byte
	err   error // of from, or of the text; not io.EOF
}

// line returns the line after what was passed on.
func (t *textReader) line() int { return 1 + t.ends }

// Read reads at least four bytes, or to the end. A character that is read in part is passed on with
// its rest.
func (t *textReader) Read(p []byte) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	n := copy(p, t.begun)
	more, err := t.from.Read(p[n:])
	n += more
	if err != nil && !errors.Is(err, io.EOF) {
		t.err = &broker.Error{Kind: broker.Invalid, Msg: "the document cannot be read", Err: err}
		return 0, t.err
	}
	whole := n
	if err == nil {
		whole -= begunBytes(p[:n])
	}
	t.begun = append(t.begun[:0], p[whole:n]...)
	if i := invalidUTF8(p[:whole]); i >= 0 {
		whole = i
		t.err = invalidFile([]string{fmt.Sprintf("line %d: not UTF-8", t.line()+bytes.Count(p[:i], []byte{'\n'}))})
		err = t.err
	}
	t.ends += bytes.Count(p[:whole], []byte{'\n'})
	return whole, err
}

// begunBytes returns how many bytes at the end of b are the beginning of a character.
func begunBytes(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}
