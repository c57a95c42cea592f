package cluster

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// magic is the beginning of every snapshot; its last byte is the format.
const magic = "sbclus\x00\x01"

// maxHeader bounds the header of a snapshot.
const maxHeader = 1 << 20

// header precedes the other parts of a snapshot: the cluster's own state, and the indices up to
// which the machine and the Shared had applied their commands, and the schema of the latter. Without a
// Shared, the rest of the snapshot is the machine's; with one, it is two sections, the machine's first.
type header struct {
	State   state  `json:"state"`
	Machine uint64 `json:"machine"`
	Shared  uint64 `json:"shared,omitempty"`
	Schema  int64  `json:"schema,omitempty"` // of the Shared's content
}

// write writes the magic, the length of the JSON (4 bytes, big endian), and the header as JSON.
func (h header) write(w io.Writer) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32([]byte(magic), uint32(len(text)))
	_, err = w.Write(append(b, text...))
	return err
}

var errSnapshot = errors.New("it is not a cluster snapshot in a format that this release supports")

// readHeader reads a header, and nothing behind it.
func readHeader(r io.Reader) (header, error) {
	front := make([]byte, len(magic)+4)
	if _, err := io.ReadFull(r, front); err != nil {
		return header{}, fmt.Errorf("read a snapshot: %w", err)
	}
	size := binary.BigEndian.Uint32(front[len(magic):])
	if !bytes.HasPrefix(front, []byte(magic)) || size > maxHeader {
		return header{}, fmt.Errorf("read a snapshot: %w", errSnapshot)
	}
	var text bytes.Buffer
	if _, err := io.CopyN(&text, r, int64(size)); err != nil {
		return header{}, fmt.Errorf("read a snapshot: %w", err)
	}
	var h header
	if err := json.Unmarshal(text.Bytes(), &h); err != nil {
		return header{}, fmt.Errorf("read a snapshot: %w", err)
	}
	if !h.State.isKnown() {
		return header{}, fmt.Errorf("read a snapshot: %w", errSnapshot)
	}
	return h, nil
}
