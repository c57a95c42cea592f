package remote

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"time"

	"signalbox/broker/mqtt/dial"
)

// Types of MQTT control packets that a broker may send to this client
// [MQTT-2.2.1].
const (
	packetConnack  = 2
	packetPublish  = 3
	packetPuback   = 4
	packetPubrec   = 5
	packetPubcomp  = 7
	packetSuback   = 9
	packetUnsuback = 11
	packetPingresp = 13
)

// maxPublish bounds a message from the broker, in bytes. Responses to other clients arrive as
// well, so a larger one is discarded rather than treated as a violation.
const maxPublish = 64 << 20

// checkedConn is the connection passed to the MQTT library. It checks incoming packets,
// because the library trusts its broker: it would allocate what a header announces and index
// by the contents of a SUBACK. Each write has a deadline, so that a stalled broker cannot
// block a writer for ever.
//
// Read is for one goroutine at a time; everything else is safe for concurrent use.
type checkedConn struct {
	net.Conn
	filters      int           // maximum return codes in a SUBACK
	unsubscribes bool          // UNSUBACK is expected; the library sends no UNSUBSCRIBE
	writeTimeout time.Duration // for each write
	log          *slog.Logger
	barriers     barriers

	in        *bufio.Reader
	connected bool   // CONNACK was received
	head      []byte // rest of a header to return
	body      int    // rest of its packet to return
}

func newCheckedConn(conn net.Conn, filters int, writeTimeout time.Duration, log *slog.Logger) *checkedConn {
	return &checkedConn{Conn: conn, filters: filters, writeTimeout: writeTimeout, log: log,
		in: bufio.NewReader(conn)}
}

// Write writes with a deadline.
func (w *checkedConn) Write(p []byte) (int, error) { return w.barriers.write(p, w.writeNow) }

// ping sends a PINGREQ between packets of the library, and returns a channel that is closed
// when everything before it was processed.
func (w *checkedConn) ping() (<-chan struct{}, error) { return w.barriers.add(w.writeNow) }

func (w *checkedConn) writeNow(p []byte) (int, error) {
	if err := w.Conn.SetWriteDeadline(time.Now().Add(w.writeTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// SetWriteDeadline does nothing: Write sets the deadline.
func (w *checkedConn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the read deadline only.
func (w *checkedConn) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// Read returns checked packets. A *dial.ProtocolError means that the data is not MQTT, or not
// what a broker may send here.
func (w *checkedConn) Read(p []byte) (int, error) {
	for len(w.head) == 0 && w.body == 0 {
		if err := w.next(); err != nil {
			return 0, err
		}
	}
	if len(w.head) > 0 {
		n := copy(p, w.head)
		w.head = w.head[n:]
		return n, nil
	}
	n, err := w.in.Read(p[:min(len(p), w.body)])
	w.body -= n
	return n, err
}

// next reads the header of the next packet, and discards messages that are too large.
func (w *checkedConn) next() error {
	head, length, err := w.header()
	if err != nil {
		return err
	}
	if head[0]>>4 == packetPublish && length > maxPublish {
		w.log.Warn("message from the broker passed over", "bytes", length, "limit", maxPublish)
		_, err := io.CopyN(io.Discard, w.in, int64(length))
		return err
	}
	w.barriers.receive(head[0] >> 4)
	w.head, w.body = head, length
	return nil
}

// header reads and checks a fixed header [MQTT-2.2].
func (w *checkedConn) header() (head []byte, length int, err error) {
	first, err := w.in.ReadByte()
	if err != nil {
		return nil, 0, err
	}
	if !w.expects(first) {
		return nil, 0, w.protocolError(first)
	}
	head = []byte{first}
	for shift := 0; ; shift += 7 {
		b, err := w.in.ReadByte()
		if err != nil {
			return nil, 0, err
		}
		head = append(head, b)
		length |= int(b&0x7f) << shift
		if b < 0x80 {
			break
		}
		if shift == 21 {
			return nil, 0, w.protocolError(first)
		}
	}
	if !w.validLength(first>>4, length) {
		return nil, 0, w.protocolError(first)
	}
	if !w.connected {
		return head, length, w.checkConnack(first)
	}
	return head, length, nil
}

// checkConnack checks the return code, 0 to 5 [MQTT-3.2.2.3].
func (w *checkedConn) checkConnack(first byte) error {
	body, err := w.in.Peek(2)
	if err != nil {
		return err
	}
	if body[1] > 5 {
		return w.protocolError(first)
	}
	w.connected = true
	return nil
}

// expects reports whether a packet may begin with a byte: CONNACK comes first and once, and
// all subscriptions have QoS 0.
func (w *checkedConn) expects(first byte) bool {
	if !w.connected {
		return first == packetConnack<<4
	}
	switch first {
	case packetPuback << 4, packetPubrec << 4, packetPubcomp << 4, packetSuback << 4, packetPingresp << 4:
		return true
	case packetUnsuback << 4:
		return w.unsubscribes
	}
	return first>>4 == packetPublish && first&0x06 == 0
}

// validLength reports whether a packet may have a length.
func (w *checkedConn) validLength(kind byte, length int) bool {
	switch kind {
	case packetConnack, packetPuback, packetPubrec, packetPubcomp, packetUnsuback:
		return length == 2
	case packetSuback:
		return length > 2 && length <= 2+w.filters
	case packetPublish:
		return length > 2
	}
	return length == 0
}

// protocolError describes an invalid packet by its first bytes.
func (w *checkedConn) protocolError(first byte) error {
	more, _ := w.in.Peek(min(w.in.Buffered(), 7)) // buffered bytes can be peeked
	return &dial.ProtocolError{Connected: w.connected, Begin: append([]byte{first}, more...)}
}
