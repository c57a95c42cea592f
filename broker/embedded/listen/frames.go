package listen

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// answerTimeout bounds the sending of a pong or a close frame.
const answerTimeout = time.Second

// frames is the server side of a WebSocket as a stream of bytes: packets need not be
// aligned with frames [MQTT-6.0.0-2]. It has no buffer: bytes are read into the caller's,
// and the framing is removed in place. A Read that ran into its deadline may be repeated,
// with nothing lost.
//
// Only one goroutine at a time may read. Writes, replies and Close are serialised.
type frames struct {
	net.Conn
	in     unframer
	failed error // the error that has ended reading; used by the reading goroutine only

	writing sync.Mutex // held while a frame is written; guards broken
	broken  error      // why no further frame can follow

	limit    sync.Mutex // guards deadline and the order of Conn.SetWriteDeadline calls
	deadline time.Time  // of the caller's writes
}

// Read reads the payload of the frames. A message that is not binary ends the connection
// [MQTT-6.0.0-1]; a close frame is the end of the stream.
func (f *frames) Read(p []byte) (int, error) {
	for f.failed == nil {
		n, err := f.Conn.Read(p)
		got, bad := f.in.decode(p[:n])
		if pong := f.in.takePong(); pong != nil {
			f.failed = f.reply(opPong, pong)
		}
		if bad != nil {
			f.fail(bad)
		}
		if got > 0 || err != nil || len(p) == 0 {
			return got, err
		}
	}
	return 0, f.failed
}

// fail ends reading for good and sends the peer the reason.
func (f *frames) fail(err error) {
	f.failed = err
	code := uint16(closeProtocol)
	switch closeErr, ok := errors.AsType[closed](err); {
	case ok:
		code, f.failed = uint16(closeErr), io.EOF
	case errors.Is(err, errTextFrame):
		code = closeUnsupported
	}
	f.reply(opClose, binary.BigEndian.AppendUint16(nil, code)) //nolint:errcheck // the reason for it counts
}

// Wait waits until there is something to read, without a buffer for it.
func (f *frames) Wait() error {
	if f.failed != nil {
		return nil // Read returns it
	}
	return f.Conn.(waiter).Wait() //nolint:forcetypeassert // a WebSocket is opened on waiters only
}

// Write sends p as one frame.
func (f *frames) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.writeFrame(opBinary, p)
}

// reply sends a control frame, with a deadline of its own because the peer asked for it and
// not the caller.
func (f *frames) reply(opcode byte, payload []byte) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	f.limitReply()
	defer f.restore()
	_, err := f.writeFrame(opcode, payload)
	return err
}

// writeFrame sends one frame; a close frame is the last. The caller holds writing.
func (f *frames) writeFrame(opcode byte, payload []byte) (int, error) {
	if f.broken != nil {
		return 0, f.broken
	}
	pooled := frameBuffers.Get().(*[frameBuffer]byte) //nolint:forcetypeassert // nothing else is in it
	defer frameBuffers.Put(pooled)
	buf := appendFrameHead(pooled[:0], opcode, len(payload))
	head := len(buf)
	first := min(len(payload), len(pooled)-head)
	n, err := f.Conn.Write(append(buf, payload[:first]...))
	n = max(0, n-head)
	if err == nil && first < len(payload) {
		var more int
		more, err = f.Conn.Write(payload[first:])
		n += more
	}
	if f.broken = err; opcode == opClose {
		f.broken = net.ErrClosed
	}
	return n, err
}

// limitReply sets the deadline of the next write to answerTimeout, or to the caller's if
// that is earlier. A deadline that has passed belongs to an earlier write of the caller.
func (f *frames) limitReply() {
	f.limit.Lock()
	defer f.limit.Unlock()
	now := time.Now()
	deadline := now.Add(answerTimeout)
	if f.deadline.After(now) && f.deadline.Before(deadline) {
		deadline = f.deadline
	}
	f.Conn.SetWriteDeadline(deadline) //nolint:errcheck // the write returns the error
}

// restore sets the deadline of the caller's writes again.
func (f *frames) restore() {
	f.limit.Lock()
	defer f.limit.Unlock()
	f.Conn.SetWriteDeadline(f.deadline) //nolint:errcheck // the next write returns the error
}

// SetWriteDeadline sets the deadline of writes, also of one under way.
func (f *frames) SetWriteDeadline(t time.Time) error {
	f.limit.Lock()
	defer f.limit.Unlock()
	f.deadline = t
	return f.Conn.SetWriteDeadline(t)
}

// SetDeadline sets the deadlines of reads and writes.
func (f *frames) SetDeadline(t time.Time) error {
	return errors.Join(f.SetReadDeadline(t), f.SetWriteDeadline(t))
}

// Close sends a close frame, unless another frame is being written, and closes the
// underlying connection. It blocks no longer than that does for a write.
func (f *frames) Close() error {
	if f.writing.TryLock() {
		f.writeFrame(opClose, binary.BigEndian.AppendUint16(nil, closeNormal)) //nolint:errcheck // it is being closed
		f.writing.Unlock()
	}
	return f.Conn.Close()
}
