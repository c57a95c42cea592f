package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

// connector is a connection to NATS.
type connector struct {
	dial      bridges.Dial
	options   natsgo.Options
	jetStream bool
	trial     bool
	plans     map[string]*plan // by topic mapping
	changed   chan struct{}

	conn        *natsgo.Conn     // nil while not connected
	refusals    *refusals        // of this connection
	closed      chan struct{}    // closed when the connection is lost
	acks        chan *natsgo.Msg // acknowledgements of JetStream; nil without it
	inbox       string           // prefix of the reply subjects
	batchNumber uint64           // number of the batch, which distinguishes late acknowledgements
}

// Connect connects to one of the servers.
func (c *connector) Connect(ctx context.Context) error {
	c.drop()
	o := c.options
	closed, refusals := make(chan struct{}), newRefusals()
	o.ClosedCB = func(*natsgo.Conn) {
		close(closed)
		c.notify()
	}
	o.AsyncErrorCB = func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { refusals.note(err) }
	conn, err := dial(ctx, c.dial, o)
	if err != nil {
		return err
	}
	c.conn, c.closed, c.refusals = conn, closed, refusals
	if c.jetStream {
		err = c.openStreams(ctx)
	}
	if err != nil {
		c.drop()
	}
	return err
}

// Changed returns a channel that receives when the connection is lost.
func (c *connector) Changed() <-chan struct{} { return c.changed }

func (c *connector) notify() {
	select {
	case c.changed <- struct{}{}:
	default: // a notification is pending already
	}
}

// Check does a round trip to the server.
func (c *connector) Check(ctx context.Context) error {
	if c.conn == nil {
		return &bridges.Lost{Err: errNotConnected}
	}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	if err := c.conn.FlushWithContext(ctx); err != nil {
		return c.lost(err)
	}
	return nil
}

// responseTimeout is the timeout for a response, unless the context ends earlier.
const responseTimeout = time.Minute

var errNotConnected = errors.New("there is no connection to a server")

// Close closes the connection.
func (c *connector) Close(context.Context) error {
	c.drop()
	return nil
}

func (c *connector) drop() {
	if c.conn != nil {
		c.conn.Close()
	}
	c.conn, c.closed, c.acks, c.refusals = nil, nil, nil, nil
}

// lost drops the connection and returns why it was lost.
func (c *connector) lost(err error) error {
	last := c.conn.LastError()
	if errors.Is(err, natsgo.ErrConnectionClosed) && last != nil && !errors.Is(last, natsgo.ErrPermissionViolation) {
		err = last
	}
	c.drop()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = target.Explain(err, "the server did not answer in time")
	case errors.Is(err, natsgo.ErrConnectionClosed):
		err = target.Explain(err, "the server ended the connection")
	case errors.Is(err, natsgo.ErrAuthExpired), errors.Is(err, natsgo.ErrAuthRevoked):
		err = explain(err, nil)
	default:
		err = target.Explain(err, "the connection to the server broke: "+target.Reason(err))
	}
	return &bridges.Lost{Err: err}
}

// Deliver publishes a batch.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	if c.conn == nil {
		return &bridges.Lost{Err: errNotConnected}
	}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	messages := make([]*natsgo.Msg, len(batch))
	for i, e := range batch {
		m, err := c.plans[e.Mapping].message(e, c.jetStream)
		if err != nil {
			results[i] = bridges.Result{State: bridges.Rejected, Reason: err.Error()}
			continue
		}
		messages[i] = m
	}
	if err := c.sendAll(messages, results); err != nil {
		return err
	}
	refused, err := c.flush(ctx, messages, results)
	if err != nil {
		return err
	}
	if c.jetStream {
		return cmp.Or(refused, c.awaitAcks(ctx, messages, results))
	}
	for i, m := range messages {
		if m != nil && results[i] == (bridges.Result{}) {
			results[i].State = bridges.Delivered
		}
	}
	return refused
}

// sendAll passes messages to the client. After an error there is no connection any more.
func (c *connector) sendAll(messages []*natsgo.Msg, results []bridges.Result) error {
	c.batchNumber++
	for i, m := range messages {
		if m == nil {
			continue
		}
		if c.jetStream {
			m.Reply = c.replyPrefix() + strconv.Itoa(i)
		}
		if err := c.send(m, &results[i]); err != nil {
			return err
		}
	}
	return nil
}

// flush waits until the server has processed everything that was sent. Refused is the first
// reason why it refused a message; each of those stays pending with its own reason.
func (c *connector) flush(ctx context.Context, messages []*natsgo.Msg, results []bridges.Result) (refused, err error) {
	err = c.conn.FlushWithContext(ctx)
	if err == nil {
		err = c.refusals.await(ctx, c.conn)
	}
	if err != nil {
		return nil, c.lost(err)
	}
	subjects := c.refusals.take()
	for i, m := range messages {
		if m == nil || results[i].State != bridges.Pending {
			continue
		}
		if reason := subjects[m.Subject]; reason != nil {
			results[i].Reason = reason.Error()
			refused = cmp.Or(refused, reason)
		}
	}
	return refused, nil
}

// send passes a message to the client. After an error there is no connection any more; a message
// that cannot be sent is rejected.
func (c *connector) send(m *natsgo.Msg, result *bridges.Result) error {
	err := c.conn.PublishMsg(m)
	switch {
	case err == nil:
	case errors.Is(err, natsgo.ErrMaxPayload):
		*result = bridges.Result{State: bridges.Rejected,
			Reason: fmt.Sprintf("the message is larger than the %d bytes that the server accepts", c.conn.MaxPayload())}
	case errors.Is(err, natsgo.ErrBadSubject):
		*result = bridges.Result{State: bridges.Rejected, Reason: fmt.Sprintf("%q is not a subject", m.Subject)}
	case errors.Is(err, natsgo.ErrHeadersNotSupported):
		c.drop()
		return &bridges.Lost{Err: target.Explain(err, "the server knows no headers: it must be NATS 2.2 or later")}
	default:
		return c.lost(err)
	}
	return nil
}
