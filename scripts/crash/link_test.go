package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// link is one connection of a client, from its CONNACK on. It belongs to one
// goroutine.
type link struct {
	conn      net.Conn
	in        *packet.Reader
	out       []byte // to be written by flush
	life      int    // of the broker
	five      bool   // it speaks MQTT 5
	present   bool   // the broker had a session
	stopAfter func() bool
}

var (
	errWrongPacket = errors.New("unexpected packet")
	errRefused     = errors.New("connection refused by the broker")
	errUnavailable = errors.New("the broker is about to end") // no violation
)

// The codes of a CONNACK of a broker that shuts down, in MQTT 3.1.1 and 5.
const (
	unavailable  = 3
	unavailable5 = 0x88
)

// connect waits until the broker runs and logs in. The end of ctx ends the
// connection.
func connect(ctx context.Context, s *server, login packet.Login) (*link, error) {
	life, err := s.gate.pass(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, in: packet.NewReader(conn, 16<<10), life: life, five: login.Five > 0}
	l.stopAfter = context.AfterFunc(ctx, func() { conn.Close() })
	login.Username, login.Password = s.username, s.password
	l.out = packet.AppendConnect(nil, login)
	if err := l.greet(); err != nil {
		l.close()
		return nil, err
	}
	if !s.gate.in(life) {
		l.close()
		return nil, errors.New("the broker was restarted meanwhile")
	}
	return l, nil
}

func (l *link) greet() error {
	if err := l.flush(); err != nil {
		return err
	}
	first, body, err := l.next(time.Now().Add(suite.HangLimit))
	if err != nil {
		return err
	}
	if first != packet.Connack || len(body) < 2 {
		return fmt.Errorf("%#x % x instead of CONNACK: %w", first, body, errWrongPacket)
	}
	switch body[1] {
	case 0:
	case unavailable, unavailable5, serverShuttingDown:
		return errUnavailable
	default:
		return fmt.Errorf("code %d: %w", body[1], errRefused)
	}
	l.present = body[0]&1 == 1
	return nil
}

// subscribe buffers a SUBSCRIBE.
func (l *link) subscribe(filter string, qos byte) {
	if l.five {
		l.out = packet.AppendSubscribe5(l.out, 1, filter, qos)
		return
	}
	l.out = packet.AppendSubscribe(l.out, 1, filter, qos)
}

// readPublish decodes a PUBLISH.
func (l *link) readPublish(first byte, body []byte) (packet.Message, bool) {
	if l.five {
		return packet.ReadPublish5(first, body)
	}
	return packet.ReadPublish(first, body)
}

func (l *link) close() {
	l.stopAfter()
	l.conn.Close()
}

// flush writes what was buffered.
func (l *link) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	if err := l.conn.SetWriteDeadline(time.Now().Add(suite.HangLimit)); err != nil {
		return err
	}
	_, err := l.conn.Write(l.out)
	l.out = l.out[:0]
	return err
}

// next reads a packet. After the deadline it returns os.ErrDeadlineExceeded, and
// may be called again.
func (l *link) next(deadline time.Time) (first byte, body []byte, err error) {
	if err := l.conn.SetReadDeadline(deadline); err != nil {
		return 0, nil, err
	}
	return l.in.Next()
}
