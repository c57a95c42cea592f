package mesh

import (
	"encoding/binary"
	"errors"
	"fmt"

	"signalbox/broker/embedded/engine"
)

// The frames of a link. Each is a byte that says which, four bytes of length
// (big-endian) and a body. DESIGN.md tells when they are sent.
const (
	frameHello   = 1 // by the node that dialled: who it is
	frameWelcome = 2 // the answer: how far it has come
	frameRoutes  = 3 // filters that somebody is subscribed to, or nobody any more
	frameMessage = 4
	framePing    = 5
	frameKnown   = 6 // routes were taken over
	frameDone    = 7 // all messages up to a number are safe
	frameRefused = 8 // a message could not be stored
	frameUntaken = 9 // nobody is left of shared subscriptions that a message was for
)

const (
	// version of the format; a node takes no other.
	version = 1
	// headSize is the size of what comes before the body.
	headSize = 5
	// maxFrame bounds a frame: the largest packet of MQTT, and what is said about it.
	maxFrame = 256<<20 + 1<<20
	// maxText bounds a topic, filter or name [MQTT-1.5.4].
	maxText = 65_535
	// maxShares bounds the shared subscriptions that a message is for.
	maxShares = 65_536
)

var errFrame = errors.New("a frame that breaks the format")

// open begins a frame; seal ends it.
func open(dst []byte, kind byte) []byte { return append(dst, kind, 0, 0, 0, 0) }

func seal(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-headSize))
	return dst
}

// hello is what a node says that has dialled.
type hello struct {
	node        int
	incarnation uint64 // of the node that sends
}

func appendHello(dst []byte, h hello) []byte {
	at := len(dst)
	dst = append(open(dst, frameHello), version)
	dst = binary.AppendUvarint(dst, uint64(h.node))
	return seal(binary.BigEndian.AppendUint64(dst, h.incarnation), at)
}

func decodeHello(body []byte) (h hello, err error) {
	d := decoder{rest: body}
	if v := d.byte(); d.err == nil && v != version {
		return h, fmt.Errorf("the link has format %d, this release knows %d", v, version)
	}
	h.node = int(min(d.uvarint(), 1<<31))
	h.incarnation = d.fixed()
	return h, d.end()
}

// welcome is the answer to hello.
type welcome struct {
	knows    bool   // the incarnation of the node that sends
	received uint64 // number of the last message that came; counted where knows
}

func appendWelcome(dst []byte, w welcome) []byte {
	at := len(dst)
	dst = append(open(dst, frameWelcome), version, flag(w.knows, 1))
	return seal(binary.AppendUvarint(dst, w.received), at)
}

func decodeWelcome(body []byte) (w welcome, err error) {
	d := decoder{rest: body}
	if v := d.byte(); d.err == nil && v != version {
		return w, fmt.Errorf("the link has format %d, this release knows %d", v, version)
	}
	w.knows, w.received = d.byte()&1 != 0, d.uvarint()
	return w, d.end()
}

// route is what is asked for at a node for a filter.
type route struct {
	filter string
	engine.Interest
	gone bool // nobody asks for it any more
}

// routes are some routes, in order.
type routes struct {
	number uint64 // grows with every change
	whole  bool   // they begin a whole table
	last   bool   // they end what was known by this number
	list   []route
}

func appendRoutes(dst []byte, r *routes) []byte {
	at := len(dst)
	dst = append(open(dst, frameRoutes), flag(r.whole, 1)|flag(r.last, 2))
	dst = binary.AppendUvarint(dst, r.number)
	for _, one := range r.list {
		dst = append(dst, one.QoS|flag(one.Away, 4)|flag(one.gone, 8))
		dst = appendText(dst, one.filter)
	}
	return seal(dst, at)
}

func decodeRoutes(body []byte) (r routes, err error) {
	d := decoder{rest: body}
	b := d.byte()
	r.whole, r.last, r.number = b&1 != 0, b&2 != 0, d.uvarint()
	for d.err == nil && len(d.rest) > 0 {
		b := d.byte()
		if b&3 > 2 {
			return r, errFrame
		}
		r.list = append(r.list, route{
			filter: string(d.text()), Interest: engine.Interest{QoS: b & 3, Away: b&4 != 0}, gone: b&8 != 0,
		})
	}
	return r, d.end()
}

// numbered is a frame that holds a number and, perhaps, names.
type numbered struct {
	number uint64
	names  []string
}

func appendNumbered(dst []byte, kind byte, n numbered) []byte {
	at := len(dst)
	dst = binary.AppendUvarint(open(dst, kind), n.number)
	for _, name := range n.names {
		dst = appendText(dst, name)
	}
	return seal(dst, at)
}

func decodeNumbered(body []byte) (n numbered, err error) {
	d := decoder{rest: body}
	n.number = d.uvarint()
	for d.err == nil && len(d.rest) > 0 {
		n.names = append(n.names, string(d.text()))
	}
	return n, d.end()
}

func appendPing(dst []byte) []byte { return open(dst, framePing) }

// flag gives a bit where something is so.
func flag(is bool, bit byte) byte {
	if is {
		return bit
	}
	return 0
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// decoder reads a body. After an error it gives zero values.
type decoder struct {
	rest []byte
	err  error
}

// end gives the error, if there was one or something is left.
func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail()
	}
	return d.err
}

func (d *decoder) fail() { d.err, d.rest = errFrame, nil }

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) fixed() uint64 {
	if len(d.rest) < 8 {
		d.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(d.rest)
	d.rest = d.rest[8:]
	return v
}

// text reads a text of at most 65,535 bytes, as it stands in the body.
func (d *decoder) text() []byte { return d.bytes(maxText) }

func (d *decoder) bytes(limit uint64) []byte {
	n := d.uvarint()
	if d.err != nil || n > limit || n > uint64(len(d.rest)) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
