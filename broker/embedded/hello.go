package embedded

import (
	"errors"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/embedded/access"
)

// maxConnectSize bounds the packet of a peer that has not said who it is: a
// will, username, password and client id of 64 KiB each, and properties.
const maxConnectSize = 320 << 10

var errFirstPacket = errors.New("the first packet is no CONNECT of a fit size")

// Read lets nothing through but a CONNECT of a fit size as the first packet
// [MQTT-3.1.0-1], so that a stranger cannot make the server allocate more.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.hello.begun && n > 0 {
		if !l.hello.fits(p[:n]) {
			return 0, errFirstPacket
		}
	}
	return n, err
}

// fits looks at the first bytes of a connection as they come in.
func (h *hello) fits(p []byte) bool {
	h.head = append(h.head, p[:min(len(p), 5-len(h.head))]...)
	if h.head[0] != packets.Connect<<4 {
		return false
	}
	size := 0
	for i, b := range h.head[1:] {
		size |= int(b&0x7f) << (7 * i)
		if b < 0x80 {
			h.begun = true
			return size <= maxConnectSize
		}
	}
	return len(h.head) < 5
}

// hello is what CONNECT said, as far as the broker decides about it itself.
type hello struct {
	head        []byte // the packet's first bytes
	begun       bool   // the first packet is a CONNECT of a fit size
	credentials access.Credentials
	keepAlive   time.Duration // 0 for none
	clean       bool          // Clean Session, or Clean Start
}
