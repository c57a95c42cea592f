package systemtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// link is one connection of an MQTT client that knows what a library does not
// tell: every packet. It belongs to one goroutine.
type link struct {
	conn     net.Conn
	in       *packet.Reader
	out      []byte        // to be written by flush
	patience time.Duration // how long an answer may take
	present  bool          // the broker had a session
	forget   func() bool
}

// answerTime is how long an answer may take where it is tried again.
const answerTime = 5 * time.Second

// errRefused is a CONNACK that says no.
var errRefused = errors.New("the broker refuses the connection")

// attachAs connects where it is tried again. The end of ctx ends the connection.
func attachAs(ctx context.Context, address string, login packet.Login) (*link, error) {
	return attachWithin(ctx, answerTime, address, login)
}

// attachWithin is attachAs with another time for each answer.
func attachWithin(ctx context.Context, patience time.Duration, address string, login packet.Login) (*link, error) {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(within, "tcp", address)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, in: packet.NewReader(conn, 16<<10), patience: patience}
	l.forget = context.AfterFunc(ctx, func() { conn.Close() })
	l.out = packet.AppendConnect(nil, login)
	if err := l.greet(); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *link) greet() error {
	body, err := l.ask(packet.Connack)
	if err != nil {
		return err
	}
	if len(body) < 2 || body[1] != 0 {
		return fmt.Errorf("%w: % x", errRefused, body)
	}
	l.present = body[0]&1 == 1
	return nil
}

// ask writes what was gathered and gives the body of the next packet, which must
// be of that kind. There must be nothing else on its way.
func (l *link) ask(want byte) ([]byte, error) {
	if err := l.flush(); err != nil {
		return nil, err
	}
	first, body, err := l.next(time.Now().Add(l.patience))
	if err == nil && first != want {
		err = fmt.Errorf("got packet %#x, want %#x", first, want)
	}
	return body, err
}

// subscribe gives the code of the SUBACK. Nothing may have been sent to the client
// yet.
func (l *link) subscribe(filter string, qos byte) (byte, error) {
	l.out = packet.AppendSubscribe(l.out, 1, filter, qos)
	body, err := l.ask(packet.Suback)
	if err == nil && len(body) < 3 {
		err = errors.New("a short SUBACK")
	}
	if err != nil {
		return 0, err
	}
	return body[2], nil
}

func (l *link) close() {
	l.forget()
	l.conn.Close()
}

// flush writes what was gathered.
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

// next reads a packet. After the deadline it gives os.ErrDeadlineExceeded, and
// may be called again.
func (l *link) next(deadline time.Time) (first byte, body []byte, err error) {
	if err := l.conn.SetReadDeadline(deadline); err != nil {
		return 0, nil, err
	}
	return l.in.Next()
}
