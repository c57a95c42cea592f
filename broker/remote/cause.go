package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// The stages after CONNACK.
const (
	preparing   = dial.StageConnected + iota
	discovering // of the broker's capabilities
	serving     // the session was established, and lost
)

// failure is an attempt that failed at a stage.
type failure = dial.Failure

// Further reasons why a connection cannot be used.
var (
	errClosed     = errors.New("connection closed by us")
	errNotAllowed = errors.New("subscription to answers refused")
)

// explain converts a failed attempt to the error that is shown until the next success.
func (b *Broker) explain(f *failure) *broker.Error {
	e := b.endpoint.Explain(f, b.username)
	switch {
	case errors.Is(f, context.Canceled):
	case errors.Is(f, errClosed):
		e.Msg = "the connection to the broker was closed"
	case f.Stage >= dial.StageConnected:
		e.Msg = b.connectedMessage(f.Err)
	}
	return e
}

// loginRefused converts the library's error to one with the return code.
func loginRefused(err error) error {
	for code := byte(packets.ErrRefusedBadProtocolVersion); code <= packets.ErrRefusedNotAuthorised; code++ {
		if errors.Is(err, packets.ConnErrors[code]) {
			return &dial.ConnackError{Code: code, Err: err}
		}
	}
	return err
}

// connectedMessage explains a failure after CONNACK.
func (b *Broker) connectedMessage(err error) string {
	_, isProtocol := errors.AsType[*dial.ProtocolError](err)
	switch {
	case isProtocol:
		return fmt.Sprintf("%s does not keep to MQTT 3.1.1", b.endpoint.Addr)
	case errors.Is(err, errUnconfirmed):
		return "the broker lets us in but does not answer in time: it may be overloaded"
	}
	return "the connection to the broker was lost"
}

func describeUser(username string) string {
	if username == "" {
		return "a client without username"
	}
	return fmt.Sprintf("user %q", username)
}
