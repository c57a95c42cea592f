package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/records"
)

// The frames of a link: a byte for the kind, four bytes of length (big-endian) and a body.
// DESIGN.md describes when they are sent.
const (
	frameHello     = 1 // from the dialling node
	frameWelcome   = 2 // the response: the last message received
	frameRoutes    = 3 // changes of the filters subscribed to
	frameMessage   = 4
	framePing      = 5
	frameRoutesAck = 6 // routes were applied
	frameStored    = 7 // all messages up to a number are stored
	frameRefused   = 8 // a message could not be stored
	frameNoMember  = 9 // shared subscriptions of a message have no member any more
)

const (
	// version of the format; no other is accepted.
	version = 1
	// headerSize is the size of kind and length.
	headerSize = 5
	// maxFrame bounds a frame: the largest MQTT packet, and the metadata.
	maxFrame = 256<<20 + 1<<20
	// maxText bounds a topic, filter or name [MQTT-1.5.4].
	maxText = 65_535
	// maxShares bounds the shared subscriptions of a message.
	maxShares = 65_536
)

var errFrame = errors.New("malformed frame")

// beginFrame appends a frame header; endFrame fills in the length.
func beginFrame(dst []byte, kind byte) []byte { return append(dst, kind, 0, 0, 0, 0) }

func endFrame(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-headerSize))
	return dst
}

// hello is the first frame of the dialling node.
type hello struct {
	node        int
	incarnation uint64 // of the sender
}

func appendHello(dst []byte, h hello) []byte {
	at := len(dst)
	dst = append(beginFrame(dst, frameHello), version)
	dst = binary.AppendUvarint(dst, uint64(h.node))
	return endFrame(binary.BigEndian.AppendUint64(dst, h.incarnation), at)
}

func decodeHello(body []byte) (h hello, err error) {
	d := newDecoder(body)
	if v := d.Byte(); !d.Broken && v != version {
		return h, fmt.Errorf("the link uses version %d of the format, this release supports %d", v, version)
	}
	h.node = int(min(d.Number(), 1<<31))
	h.incarnation = d.Uint64()
	return h, d.finish()
}

// welcome is the response to hello.
type welcome struct {
	known    bool   // the sender's incarnation is known
	received uint64 // the last message received; valid if known
}

func appendWelcome(dst []byte, w welcome) []byte {
	at := len(dst)
	dst = append(beginFrame(dst, frameWelcome), version, flagIf(w.known, 1))
	return endFrame(binary.AppendUvarint(dst, w.received), at)
}

func decodeWelcome(body []byte) (w welcome, err error) {
	d := newDecoder(body)
	if v := d.Byte(); !d.Broken && v != version {
		return w, fmt.Errorf("the link uses version %d of the format, this release supports %d", v, version)
	}
	w.known, w.received = d.Byte()&1 != 0, d.Number()
	return w, d.finish()
}

// route is the interest of a node in a filter.
type route struct {
	filter string
	engine.Interest
	removed bool // there is no subscription any more
}

// The bits of the byte before a filter, beside the QoS. A release that does not know
// bitTemporary does not send it: more is stored for it than necessary.
const (
	bitAway      = 4
	bitRemoved   = 8
	bitTemporary = 16
)

// encode returns the interest as a byte.
func (r route) encode() byte {
	return r.QoS | flagIf(r.Away, bitAway) | flagIf(r.Temporary, bitTemporary)
}

func decodeInterest(b byte) engine.Interest {
	return engine.Interest{QoS: b & 3, Away: b&bitAway != 0, Temporary: b&bitTemporary != 0}
}

// routes is a frame of routes.
type routes struct {
	number uint64 // table version, incremented by every change
	full   bool   // the first frame of a full table
	last   bool   // the last frame of this version
	list   []route
}

func appendRoutes(dst []byte, r *routes) []byte {
	at := len(dst)
	dst = append(beginFrame(dst, frameRoutes), flagIf(r.full, 1)|flagIf(r.last, 2))
	dst = binary.AppendUvarint(dst, r.number)
	for _, one := range r.list {
		dst = append(dst, one.encode()|flagIf(one.removed, bitRemoved))
		dst = appendText(dst, one.filter)
	}
	return endFrame(dst, at)
}

func decodeRoutes(body []byte) (r routes, err error) {
	d := newDecoder(body)
	b := d.Byte()
	r.full, r.last, r.number = b&1 != 0, b&2 != 0, d.Number()
	for !d.Broken && len(d.Rest) > 0 {
		b := d.Byte()
		if b&3 > 2 {
			return r, errFrame
		}
		r.list = append(r.list, route{
			filter: string(d.text()), Interest: decodeInterest(b), removed: b&bitRemoved != 0,
		})
	}
	return r, d.finish()
}

// ackFrame is a frame with a number and, for some kinds, names.
type ackFrame struct {
	number uint64
	names  []string
}

func appendAck(dst []byte, kind byte, n ackFrame) []byte {
	at := len(dst)
	dst = binary.AppendUvarint(beginFrame(dst, kind), n.number)
	for _, name := range n.names {
		dst = appendText(dst, name)
	}
	return endFrame(dst, at)
}

func decodeAck(body []byte) (n ackFrame, err error) {
	d := newDecoder(body)
	n.number = d.Number()
	for !d.Broken && len(d.Rest) > 0 {
		n.names = append(n.names, string(d.text()))
	}
	return n, d.finish()
}

func appendPing(dst []byte) []byte { return beginFrame(dst, framePing) }

// flagIf returns bit if is is true, and else 0.
func flagIf(is bool, bit byte) byte {
	if is {
		return bit
	}
	return 0
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// decoder decodes a body. After an error all values are zero.
type decoder struct{ records.Reader }

func newDecoder(body []byte) decoder { return decoder{records.Reader{Rest: body}} }

// finish returns errFrame if a value could not be decoded, or if bytes are left.
func (d *decoder) finish() error {
	if !d.Done() {
		return errFrame
	}
	return nil
}

// text decodes up to 65,535 bytes without copying them.
func (d *decoder) text() []byte { return d.bytes(maxText) }

func (d *decoder) bytes(limit uint64) []byte { return d.Take(int(d.NumberUpTo(limit))) }
