package systemtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
)

// link is one connection of an MQTT client that sees every packet, unlike a library. It
// belongs to one goroutine.
type link struct {
	mqtttest.Conn
	timeout time.Duration // maximum time of a response
	present bool          // the broker had a session
}

// answerTime is the maximum time of a response if the request is repeated.
const answerTime = 5 * time.Second

// errRefused is a CONNACK that refuses the connection.
var errRefused = errors.New("the broker refuses the connection")

// connectMQTT connects for a caller that repeats a failed attempt. The end of ctx
// closes the connection.
func connectMQTT(ctx context.Context, address string, login packet.Login) (*link, error) {
	return connectWithin(ctx, answerTime, address, login)
}

// connectWithin is connectMQTT with another maximum time of responses.
func connectWithin(ctx context.Context, patience time.Duration, address string, login packet.Login) (*link, error) {
	l := &link{timeout: patience}
	if err := l.Open(ctx, address, patience); err != nil {
		return nil, err
	}
	l.Out = packet.AppendConnect(nil, login)
	if err := l.greet(); err != nil {
		l.Close()
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

// ask writes the buffer and returns the body of the next packet, which must be of that
// type. No other packet may be outstanding.
func (l *link) ask(want byte) ([]byte, error) {
	if err := l.Flush(); err != nil {
		return nil, err
	}
	first, body, err := l.Next(time.Now().Add(l.timeout))
	if err == nil && first != want {
		err = fmt.Errorf("got packet %#x, want %#x", first, want)
	}
	return body, err
}

// subscribe returns the code of the SUBACK. Nothing may have been sent to the client
// yet.
func (l *link) subscribe(filter string, qos byte) (byte, error) {
	l.Out = packet.AppendSubscribe(l.Out, 1, filter, qos)
	body, err := l.ask(packet.Suback)
	if err == nil && len(body) < 3 {
		err = errors.New("a short SUBACK")
	}
	if err != nil {
		return 0, err
	}
	return body[2], nil
}
