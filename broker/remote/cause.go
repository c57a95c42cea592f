package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// The stages after the log-in.
const (
	subscribing = dial.StageConnected + iota
	probing     // asking what the broker can do
	attending   // it stood, and was lost
)

// failure is an attempt that ended at a stage.
type failure = dial.Failure

// Why a connection is not usable, beside what may befall a call.
var (
	errClosed     = errors.New("connection closed by us")
	errNotAllowed = errors.New("subscription to answers refused")
)

// explain turns a failed attempt into the error that the broker shows until the
// next one succeeds.
func (b *Broker) explain(f *failure) *broker.Error {
	e := b.endpoint.Explain(f, b.username)
	switch {
	case errors.Is(f, context.Canceled):
	case errors.Is(f, errClosed):
		e.Msg = "the connection to the broker was closed"
	case f.Stage >= dial.StageConnected:
		e.Msg = b.whyNotAnswered(f.Err)
	}
	return e
}

// loginRefused is the error of a log-in, by what the library makes of its return code.
func loginRefused(err error) error {
	for code := byte(packets.ErrRefusedBadProtocolVersion); code <= packets.ErrRefusedNotAuthorised; code++ {
		if errors.Is(err, packets.ConnErrors[code]) {
			return &dial.ConnackError{Code: code, Err: err}
		}
	}
	return err
}

// whyNotAnswered is about a broker that let us in and is of no use.
func (b *Broker) whyNotAnswered(err error) string {
	_, isOdd := errors.AsType[*dial.ProtocolError](err)
	switch {
	case isOdd:
		return fmt.Sprintf("%s does not keep to MQTT 3.1.1", b.endpoint.Addr)
	case errors.Is(err, errUnconfirmed):
		return "the broker lets us in but does not answer in time: it may be overloaded"
	}
	return "the connection to the broker was lost"
}

func whom(username string) string {
	if username == "" {
		return "a client without username"
	}
	return fmt.Sprintf("user %q", username)
}
