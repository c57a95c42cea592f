package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
)

// open opens a connection for MQTT.
func (c *connector) open(ctx context.Context) (net.Conn, error) {
	conn, f := c.document.endpoint.Open(ctx, new(dial.Handshake))
	if f != nil {
		return nil, f
	}
	return conn, nil
}

// explain returns why there is no connection, as a text for operators.
func (c *connector) explain(err error) *broker.Error {
	e := c.cause(err)
	e.Op = "" // only the text is shown
	return e
}

func (c *connector) cause(err error) *broker.Error {
	ep, username := &c.document.endpoint, ""
	if s := c.document.Connection.Credentials; s != nil {
		username = s.Username
	}
	f := dial.FailureOf(err)
	ended, hasReason := errors.AsType[*client.DisconnectError](err)
	switch {
	case f != nil:
		return ep.Explain(f, username)
	case hasReason && ended.TakenOver():
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Err: err,
			Msg: c.clientIDConflict("another client connects to the broker with client ids that begin with %q: give each bridge a clientId of its own; " + usernameHint)}
	case c.losses.record():
		return &broker.Error{Kind: broker.Unavailable, Err: err,
			Msg: c.clientIDConflict("the broker ends the connection again and again after the log-in: " +
				"perhaps another client uses client ids that begin with %q, or the broker refuses the packets; " + usernameHint)}
	}
	return ep.Explain(&dial.Failure{Stage: dial.StageConnected, Err: err}, username)
}

// usernameHint is another reason why a bridge's connections end, of which it has two if it sends
// and receives.
const usernameHint = "a Mosquitto with use_username_as_clientid true ends a bridge's connections for each other: use a listener without that"

// clientIDConflict formats a text with the client id.
func (c *connector) clientIDConflict(format string) string {
	return fmt.Sprintf(format, c.document.Connection.ClientID)
}

// lossHistory are the times of the latest losses of an established connection.
type lossHistory struct {
	mu    sync.Mutex // guards times
	times [6]time.Time
}

// lossWindow is the period within which that many losses are suspicious.
const lossWindow = 30 * time.Second

// record records a loss, and reports whether there were many lately.
func (l *lossHistory) record() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	copy(l.times[:], l.times[1:])
	l.times[len(l.times)-1] = time.Now()
	return time.Since(l.times[0]) < lossWindow
}
