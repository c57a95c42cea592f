package client

import (
	"context"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// Listener receives what is published, on a connection of its own that is not replaced when it
// is lost.
type Listener struct {
	conn    *conn
	options *Options
	take    func(messaging.Message)
	message incoming
	cancel  context.CancelFunc
	lost    chan struct{} // closed when all goroutines have ended
}

// Listen connects with a client id that no other connection has, subscribes to filters that do
// not overlap, and calls take with each message that is published from then on, until the
// Listener is stopped or lost. take must not block; the bytes of a message are valid during the
// call only. The context bounds the call to Listen. Its error is a *SubscriptionDeniedError,
// the context's, or one that Options.Explain converts.
//
// Its QoS is 0, to which limits of queued or in-flight messages do not apply.
func (c *Client) Listen(ctx context.Context, clientID string, filters []string, take func(messaging.Message)) (*Listener, error) {
	conn, err := c.dialDecided(ctx, connectParams{clientID: clientID, clean: true})
	if err != nil {
		return nil, err
	}
	l := &Listener{conn: conn, options: &c.options, take: take, lost: make(chan struct{})}
	inTime := context.AfterFunc(ctx, func() { conn.Close() })
	err = l.subscribe(filters)
	if !inTime() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	serving, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer close(l.lost)
		conn.serve(serving, l.handle) //nolint:errcheck // why it was lost changes nothing
	}()
	return l, nil
}

// dialDecided is dial for a caller that does not try again: if the broker closes the first
// connection, dial leaves open which version of MQTT it supports.
func (c *Client) dialDecided(ctx context.Context, p connectParams) (*conn, error) {
	conn, err := c.dial(ctx, p)
	if err != nil && c.negotiation.undecided() && ctx.Err() == nil {
		return c.dial(ctx, p)
	}
	return conn, err
}

// subscribe subscribes and waits for SUBACK. In MQTT 5 messages have RETAIN as published, and
// those that are retained already are not sent.
func (l *Listener) subscribe(filters []string) error {
	s := &packet.Subscribe{PacketID: 1}
	options := byte(0)
	if l.conn.version == packet.V5 {
		options = retainAsPublished | noRetained
	}
	for _, filter := range filters {
		s.Filters = append(s.Filters, packet.Filter{Filter: filter, Options: options})
	}
	if err := writeAll(l.conn.Conn, packet.AppendSubscribe(nil, l.conn.version, s), l.conn.timing.Write); err != nil {
		return err
	}
	for {
		first, body, _, err := l.conn.next()
		switch {
		case err != nil:
			return err
		case first>>4 == packet.TypeSuback:
			return checkSuback(body, l.conn.version, filters...)
		case first>>4 != packet.TypePublish: // which may come first
			return errMalformed
		}
	}
}

// handle handles a packet after SUBACK.
func (l *Listener) handle(first byte, body []byte, truncated bool) error {
	if first>>4 != packet.TypePublish {
		return errMalformed
	}
	p := &l.message
	if err := p.decode(first, body, l.conn.version); err != nil {
		return err
	}
	switch {
	case p.qos > 0:
		return errMalformed
	case truncated:
		l.options.Log.Warn("message not shown: it is too long", "limit", maxPacket)
	case p.retain && l.conn.version != packet.V5: // it was retained before [MQTT-3.3.1-8]
	default:
		m := messaging.Message{Topic: string(p.topic)}
		p.refer(&m, l.options.Now().UnixMilli())
		l.take(m)
	}
	return nil
}

// Lost returns a channel that is closed when the connection has ended.
func (l *Listener) Lost() <-chan struct{} { return l.lost }

// Stop disconnects and waits for the goroutines.
func (l *Listener) Stop() {
	l.cancel()
	<-l.lost
}
