package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxPayload bounds one request or response between nodes.
const maxPayload = 16 << 20

// frame is a request of the protocol "rpc", or its response: the length of the rest (4 bytes),
// an id that the response has in common with its request (8), a kind (1), a number (8), and a
// payload; all big endian.
//
// The number of a request is its time limit in milliseconds; that of a response is the index up
// to which the other node has applied everything.
type frame struct {
	id      uint64
	kind    byte
	number  uint64
	payload []byte
}

const frameHeader = 8 + 1 + 8

// The kinds of requests.
const (
	callForward   = 1 // a request for the leader's Serve
	callStatus    = 2 // the status of the other node, and what it knows of this one
	callRemove    = 3 // requests the leader to remove a node
	callDissolved = 4 // the cluster is dissolved
	callRemoved   = 5 // the other node is removed
	callAsk       = 6 // a request for the other node's Answer
	callKey       = 7 // requests the leader to change the key of the requesting node
)

// The kinds of responses. With those up to statusBusy, nothing was done.
const (
	statusOK = iota
	statusNotLeader
	statusNoLeader
	statusNotClustered
	statusBusy
	statusUnconfirmed
	statusFailed // the payload is the reason
)

// append appends the frame's encoding.
func (f frame) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(frameHeader+len(f.payload)))
	b = binary.BigEndian.AppendUint64(b, f.id)
	b = append(b, f.kind)
	b = binary.BigEndian.AppendUint64(b, f.number)
	return append(b, f.payload...)
}

var errFrame = errors.New("the received data is not a valid frame")

// readFrame reads one frame. Its memory grows with what arrives, not with the length that the
// frame claims.
func readFrame(r io.Reader) (frame, error) {
	var front [4 + frameHeader]byte
	if _, err := io.ReadFull(r, front[:]); err != nil {
		return frame{}, fmt.Errorf("read a frame: %w", err)
	}
	size := binary.BigEndian.Uint32(front[:])
	if size < frameHeader || size > frameHeader+maxPayload {
		return frame{}, fmt.Errorf("read a frame: %w", errFrame)
	}
	f := frame{
		id: binary.BigEndian.Uint64(front[4:]), kind: front[12], number: binary.BigEndian.Uint64(front[13:]),
	}
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, r, int64(size-frameHeader)); err != nil {
		return frame{}, fmt.Errorf("read a frame: %w", io.ErrUnexpectedEOF)
	}
	f.payload = payload.Bytes()
	return f, nil
}
