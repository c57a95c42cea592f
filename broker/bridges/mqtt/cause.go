package mqtt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
)

// open opens a connection up to where MQTT begins.
func (c *connector) open(ctx context.Context) (net.Conn, error) {
	conn, f := c.document.endpoint.Open(ctx, new(atomic.Bool))
	if f != nil {
		return nil, f
	}
	return c.whileServing(ctx, conn)
}

// explain says why there is no connection.
func (c *connector) explain(err error) *broker.Error {
	e := c.cause(err)
	e.Op = "" // the sentence is all that is shown
	return e
}

func (c *connector) cause(err error) *broker.Error {
	ep, username := &c.document.endpoint, ""
	if s := c.document.Connection.Credentials; s != nil {
		username = s.Username
	}
	f, opening := errors.AsType[*dial.Failure](err)
	refusal, refused := errors.AsType[*client.ConnackError](err)
	ended, said := errors.AsType[*client.DisconnectError](err)
	switch {
	case opening:
		return ep.Explain(f, username)
	case refused:
		return ep.Explain(&dial.Failure{Stage: dial.StageConnect, Err: &dial.ConnackError{Code: refusal.V311Code(), Err: err}}, username)
	case said && ended.TakenOver():
		return &broker.Error{Kind: broker.Unavailable, Op: "connect", Err: err,
			Msg: c.rival("somebody else connects to the broker with client ids that begin with %q: give each bridge a clientId of its own; " + byUsername)}
	case c.losses.often():
		return &broker.Error{Kind: broker.Unavailable, Err: err,
			Msg: c.rival("the broker ends the connection again and again after the log-in: " +
				"perhaps somebody else uses client ids that begin with %q, or the broker dislikes what is sent; " + byUsername)}
	}
	return ep.Explain(&dial.Failure{Stage: dial.StageConnected, Err: err}, username)
}

// byUsername is what else ends the connections of a bridge, which has two where it goes
// both ways.
const byUsername = "a Mosquitto with use_username_as_clientid true ends a bridge's connections for each other: use a listener without that"

// rival puts the client id into a sentence.
func (c *connector) rival(format string) string {
	return fmt.Sprintf(format, c.document.Connection.ClientID)
}

// losses are the latest times when a connection that stood was lost.
type losses struct {
	mu    sync.Mutex // guards times
	times [6]time.Time
}

// lossTime is the time within which so many losses are many.
const lossTime = 30 * time.Second

// often notes a loss, and tells whether there were many of late.
func (l *losses) often() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	copy(l.times[:], l.times[1:])
	l.times[len(l.times)-1] = time.Now()
	return time.Since(l.times[0]) < lossTime
}
