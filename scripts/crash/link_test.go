package crash

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// link is one connection of a client, from its CONNACK on. It belongs to one
// goroutine.
type link struct {
	mqtttest.Conn
	life    int  // of the broker
	five    bool // it speaks MQTT 5
	present bool // the broker had a session
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
	l := &link{life: life, five: login.Five > 0}
	if err := l.Open(ctx, s.addr, 0); err != nil {
		return nil, err
	}
	login.Username, login.Password = s.username, s.password
	l.Out = packet.AppendConnect(nil, login)
	if err := l.greet(); err != nil {
		l.Close()
		return nil, err
	}
	if !s.gate.in(life) {
		l.Close()
		return nil, errors.New("the broker was restarted meanwhile")
	}
	return l, nil
}

func (l *link) greet() error {
	if err := l.Flush(); err != nil {
		return err
	}
	first, body, err := l.Next(time.Now().Add(suite.HangLimit))
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
		l.Out = packet.AppendSubscribe5(l.Out, 1, filter, qos)
		return
	}
	l.Out = packet.AppendSubscribe(l.Out, 1, filter, qos)
}

// readPublish decodes a PUBLISH.
func (l *link) readPublish(first byte, body []byte) (packet.Message, bool) {
	if l.five {
		return packet.ReadPublish5(first, body)
	}
	return packet.ReadPublish(first, body)
}
