package embedded

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/embedded/access"
)

// link is one connection from accept to close. The server knows it as the
// net.Conn of its client, so every hook finds it without looking it up.
//
// Fields without a remark belong to the connection's own goroutine; those it
// sets before the client is admitted are read by others afterwards.
type link struct {
	net.Conn // plain, TLS or WebSocket; wire is beneath
	wire     *wire
	listener *listener
	done     chan struct{} // closed when nothing of the connection is left

	hello     hello        // what CONNECT said
	refusal   packets.Code // the reason of a refused CONNECT
	client    *mqtt.Client
	account   *access.Account
	will      *will
	request   *controlRequest // allowed by OnPublish, done by OnPublished
	filters   []string        // those of the SUBSCRIBE under way
	codes     []byte          // the answer to the UNSUBSCRIBE under way
	unmatched bool            // the QoS 1 message under way has no subscriber
	retained  bool            // holds the retained messages for reading

	established bool // the server has a session for it
	ended       bool // the server has taken note of its end,
	expired     bool // and has dropped the session

	welcomed atomic.Bool   // CONNACK with success is out
	cut      atomic.Bool   // thrown out by an administrator
	answers  atomic.Int32  // control answers queued and not yet written
	answered chan struct{} // signalled when answers may have become zero
}

func newLink(l *listener, conn net.Conn) *link {
	beneath := conn
	if s, ok := conn.(*stream); ok {
		beneath = s.Conn
	}
	return &link{
		Conn: conn, wire: wireOf(beneath), listener: l,
		done: make(chan struct{}), answered: make(chan struct{}, 1),
	}
}

// linkOf gives the link of a client that came over the network.
func linkOf(cl *mqtt.Client) *link {
	l, _ := cl.Net.Conn.(*link)
	return l
}

// SetDeadline gives the peer one and a half times its keep alive to send
// something [MQTT-3.1.2-22]. The server calls it before each packet; its own
// value is not used because it overflows beyond 43690 seconds.
func (l *link) SetDeadline(time.Time) error {
	var deadline time.Time
	if l.hello.keepAlive > 0 {
		deadline = time.Now().Add(l.hello.keepAlive * 3 / 2)
	}
	return l.Conn.SetReadDeadline(deadline)
}

// address is the peer's, without its port.
func (l *link) address() string {
	host, _, err := net.SplitHostPort(l.RemoteAddr().String())
	if err != nil {
		return l.RemoteAddr().String()
	}
	return host
}

// end closes the connection of an admitted client from outside its goroutine,
// after DISCONNECT with the reason where its version knows that. It takes no
// longer than the grace period.
func (l *link) end(reason packets.Code) {
	l.wire.hurry(grace)
	if l.client.Properties.ProtocolVersion == 5 && l.welcomed.Load() {
		l.client.WritePacket(packets.Packet{ //nolint:errcheck // it is being closed
			FixedHeader: packets.FixedHeader{Type: packets.Disconnect},
			ReasonCode:  reason.Code,
		})
	}
	l.client.Stop(reason)
}

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
