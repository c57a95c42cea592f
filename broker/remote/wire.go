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
	packetPingresp = 13
)

// maxPublish bounds a message from the broker, in bytes. Everybody who may read
// it gets the answer to everybody's command, so one that is larger is passed
// over rather than taken for an offence.
const maxPublish = 64 << 20

// wire is the connection as the MQTT library sees it. What comes in is checked
// packet by packet, because the library trusts its broker: it would allocate
// what a header announces and index by what a SUBACK holds. What goes out has
// a deadline for each write, pings included, so that a stalled broker cannot
// hold a writer for ever.
//
// Read is for one goroutine at a time, everything else for several.
type wire struct {
	net.Conn
	filters      int           // return codes that a SUBACK may hold
	writeTimeout time.Duration // for each write
	log          *slog.Logger
	fences       fences

	in      *bufio.Reader
	greeted bool   // the CONNACK has come
	head    []byte // bytes of a header still to be read
	body    int    // bytes of its packet still to be read
}

func newWire(conn net.Conn, filters int, writeTimeout time.Duration, log *slog.Logger) *wire {
	return &wire{Conn: conn, filters: filters, writeTimeout: writeTimeout, log: log,
		in: bufio.NewReader(conn)}
}

// Write writes with a deadline of its own.
func (w *wire) Write(p []byte) (int, error) { return w.fences.write(p, w.writeNow) }

// ping sends a PINGREQ of its own, between two packets of the library, and returns
// a channel that is closed when everything before it has been processed.
func (w *wire) ping() (<-chan struct{}, error) { return w.fences.put(w.writeNow) }

func (w *wire) writeNow(p []byte) (int, error) {
	if err := w.Conn.SetWriteDeadline(time.Now().Add(w.writeTimeout)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// SetWriteDeadline does nothing: Write sets the deadline.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the deadline for reading only.
func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }

// Read hands on packets that passed the checks. A *dial.ProtocolError says that
// what came is no MQTT, or not what a broker may send here.
func (w *wire) Read(p []byte) (int, error) {
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

// next reads the next packet's header, and passes over a message that is too
// large.
func (w *wire) next() error {
	head, length, err := w.header()
	if err != nil {
		return err
	}
	if head[0]>>4 == packetPublish && length > maxPublish {
		w.log.Warn("message from the broker passed over", "bytes", length, "limit", maxPublish)
		_, err := io.CopyN(io.Discard, w.in, int64(length))
		return err
	}
	w.fences.receive(head[0] >> 4)
	w.head, w.body = head, length
	return nil
}

// header reads a fixed header [MQTT-2.2] and checks it.
func (w *wire) header() (head []byte, length int, err error) {
	first, err := w.in.ReadByte()
	if err != nil {
		return nil, 0, err
	}
	if !w.expects(first) {
		return nil, 0, w.offence(first)
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
			return nil, 0, w.offence(first)
		}
	}
	if !w.fits(first>>4, length) {
		return nil, 0, w.offence(first)
	}
	if !w.greeted {
		return head, length, w.greeting(first)
	}
	return head, length, nil
}

// greeting checks the CONNACK's return code, 0 to 5 [MQTT-3.2.2.3].
func (w *wire) greeting(first byte) error {
	body, err := w.in.Peek(2)
	if err != nil {
		return err
	}
	if body[1] > 5 {
		return w.offence(first)
	}
	w.greeted = true
	return nil
}

// expects tells whether a packet may begin with that byte: the CONNACK comes
// first and once, and all subscriptions are of QoS 0.
func (w *wire) expects(first byte) bool {
	if !w.greeted {
		return first == packetConnack<<4
	}
	switch first {
	case packetPuback << 4, packetPubrec << 4, packetPubcomp << 4, packetSuback << 4, packetPingresp << 4:
		return true
	}
	return first>>4 == packetPublish && first&0x06 == 0
}

// fits tells whether a packet may be that long.
func (w *wire) fits(kind byte, length int) bool {
	switch kind {
	case packetConnack, packetPuback, packetPubrec, packetPubcomp:
		return length == 2
	case packetSuback:
		return length > 2 && length <= 2+w.filters
	case packetPublish:
		return length > 2
	}
	return length == 0
}

// offence describes what came in place of a sound packet, with some bytes to
// tell what it is.
func (w *wire) offence(first byte) error {
	more, _ := w.in.Peek(min(w.in.Buffered(), 7)) // what is buffered can be peeked at
	return &dial.ProtocolError{Connected: w.greeted, Begin: append([]byte{first}, more...)}
}
