package embedded

import (
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

	ended   bool // the server has taken note of its end,
	expired bool // and has dropped the session

	established atomic.Bool   // let in; CONNACK is next
	welcomed    chan struct{} // closed when that CONNACK is out
	cut         atomic.Bool   // thrown out by an administrator
	answers     atomic.Int32  // control answers queued and not yet written
	answered    chan struct{} // signalled when answers may have become zero
}

func newLink(l *listener, conn net.Conn) *link {
	beneath := conn
	if s, ok := conn.(*stream); ok {
		beneath = s.Conn
	}
	return &link{
		Conn: conn, wire: wireOf(beneath), listener: l,
		done: make(chan struct{}), welcomed: make(chan struct{}), answered: make(chan struct{}, 1),
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

// end closes the connection of a client from outside its goroutine, after
// DISCONNECT with the reason where its version knows that and it has had its
// CONNACK [MQTT-3.14.0-1]. It takes little longer than the grace period.
func (l *link) end(reason packets.Code) {
	l.wire.hurry(grace)
	if l.client.Properties.ProtocolVersion == 5 && l.awaitWelcome() {
		l.client.WritePacket(packets.Packet{ //nolint:errcheck // it is being closed
			FixedHeader: packets.FixedHeader{Type: packets.Disconnect},
			ReasonCode:  reason.Code,
		})
	}
	l.client.Stop(reason)
}

// awaitWelcome waits for a CONNACK that is about to be sent. It answers false
// if there is none to come.
func (l *link) awaitWelcome() bool {
	if !l.established.Load() {
		return false
	}
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	select {
	case <-l.welcomed:
		return true
	case <-l.done:
	case <-timeout.C:
	}
	return false
}
