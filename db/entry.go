package db

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"signalbox/broker/storage"
)

// entry is a change of the shared content, as it is in the log:
//
//	block header        version of the format and checksum, see storage.SealBlock
//	schema, base        numbers
//	origin              text
//	id                  text
//	reserve, again      0 or 1
//	texts               their number, then each with its length
//	statements          their number, then for each: the number of its text, the rows it
//	                    changes, the number of its arguments, and these
//	argument            its kind (0 NULL, 1 integer, 2 text, 3 blob) and its value
//
// Numbers are unsigned varints; integers signed ones.
type entry struct {
	schema     int64  // for which it was made
	base       int64  // the version of the content on which the statements were executed
	origin     string // the copy on which they were
	id         string // the same when it is proposed again
	reserve    bool   // after a conflict, the next change is to be that of origin
	again      bool   // it was proposed before, and may have been applied
	statements []statement
}

const (
	argNull = iota
	argInteger
	argText
	argBlob
)

// maxEntry bounds the length of an entry in bytes; a cluster accepts 8 MiB.
const maxEntry = 7 << 20

// errEntry means that an entry is not one that this program makes.
var errEntry = errors.New("the entry cannot be read")

// encode returns the entry as it is proposed.
func (e *entry) encode() []byte {
	b := make([]byte, storage.BlockHeader, 512)
	b = binary.AppendUvarint(b, uint64(e.schema)) //nolint:gosec // not negative, as those below
	b = binary.AppendUvarint(b, uint64(e.base))   //nolint:gosec // as above
	b = appendText(b, e.origin)
	b = appendText(b, e.id)
	b = append(b, bit(e.reserve), bit(e.again))
	texts, numbers := []string{}, map[string]int{}
	for _, s := range e.statements {
		if _, known := numbers[s.text]; !known {
			numbers[s.text] = len(texts)
			texts = append(texts, s.text)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, t := range texts {
		b = appendText(b, t)
	}
	b = binary.AppendUvarint(b, uint64(len(e.statements)))
	for _, s := range e.statements {
		b = binary.AppendUvarint(b, uint64(numbers[s.text])) //nolint:gosec // as above
		b = binary.AppendUvarint(b, uint64(s.changes))       //nolint:gosec // as above
		b = binary.AppendUvarint(b, uint64(len(s.args)))
		for _, v := range s.args {
			b = appendArg(b, v)
		}
	}
	return storage.SealBlock(b)
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendArg(b []byte, v any) []byte {
	switch v := v.(type) {
	case int64:
		return binary.AppendVarint(append(b, argInteger), v)
	case string:
		return appendText(append(b, argText), v)
	case []byte:
		return appendText(append(b, argBlob), v)
	}
	return append(b, argNull)
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// decodeEntry reads an entry. It does not trust it, but for the statements as such: a
// node of the cluster may change the content.
func decodeEntry(b []byte) (e entry, err error) {
	if len(b) > maxEntry {
		return e, fmt.Errorf("%w: it has %d bytes", errEntry, len(b))
	}
	r, err := storage.OpenBlock(b)
	if err != nil {
		return e, fmt.Errorf("%w: %w", errEntry, err)
	}
	const positive = 1<<63 - 1
	e.schema = int64(r.NumberUpTo(positive)) //nolint:gosec // within its bounds, as those below
	e.base = int64(r.NumberUpTo(positive))   //nolint:gosec // as above
	e.origin = r.Text()
	e.id = r.Text()
	e.reserve, e.again = r.Bool(), r.Bool()
	texts := make([]string, r.Count(1))
	for i := range texts {
		if texts[i] = r.Text(); !isChange(texts[i]) {
			return e, errEntry
		}
	}
	e.statements = make([]statement, r.Count(3))
	for i := range e.statements {
		s := &e.statements[i]
		n := r.Number()
		if n >= uint64(len(texts)) {
			return e, errEntry
		}
		s.text = texts[n]
		s.changes = int64(r.NumberUpTo(positive)) //nolint:gosec // as above
		s.args = make([]any, r.Count(1))
		for j := range s.args {
			switch r.Byte() {
			case argNull:
			case argInteger:
				s.args[j] = r.Signed()
			case argText:
				s.args[j] = r.Text()
			case argBlob:
				s.args[j] = append([]byte{}, r.Bytes()...)
			default:
				return e, errEntry
			}
		}
	}
	if !r.Done() || slices.ContainsFunc(e.statements, statement.isBadUpgrade) {
		return e, errEntry
	}
	return e, nil
}

// isBadUpgrade reports whether a statement is to change the schema, and does not state to which version.
func (c statement) isBadUpgrade() bool {
	if c.text != upgradeText {
		return false
	}
	if len(c.args) != 1 {
		return true
	}
	version, ok := c.args[0].(int64)
	return !ok || version <= 0
}

// isChange reports whether a text is one statement that changes rows, or the schema.
func isChange(text string) bool {
	if text == upgradeText {
		return true
	}
	text = strings.TrimLeft(text, " \t\n")
	for _, verb := range []string{"INSERT ", "UPDATE ", "DELETE ", "WITH "} {
		if strings.HasPrefix(text, verb) {
			return !strings.Contains(text, ";")
		}
	}
	return false
}
