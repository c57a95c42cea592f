package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// subscriber is a session with subscriptions, and its connection.
type subscriber struct {
	client   *Client
	number   int
	clientID string
	log      *slog.Logger
	received receiveQueue

	// The reader's own.
	message  incoming
	staleIDs map[uint32]bool // subscription identifiers already handled as stale

	// Guarded by client.mu.
	subs           map[string]*subscription
	running        bool
	kept           bool  // the broker may have a session
	discardSession bool  // the session at the broker must be discarded
	cause          error // why there is no connection
	failed         bool  // the last attempt or connection failed
	ending         bool  // the connection is being closed by this side
	conn           *conn
	awaitingAck    map[uint16][]*subscription // by packet identifier
	nextID         uint16
}

func newSubscriber(f *Client, number int) *subscriber {
	return &subscriber{client: f, number: number, clientID: fmt.Sprintf("%s-%x", f.options.ClientID, number),
		log: f.log.With("subscriber", number), subs: map[string]*subscription{}}
}

// start starts the subscriber. client.mu must be held.
func (l *subscriber) start(ctx context.Context) {
	if !l.running {
		l.running, l.failed = true, false
		l.client.goroutines.Go(func() { l.client.maintain(ctx, l.log, l.connectOnce) })
	}
}

// idle reports whether nothing is to be done. client.mu must be held.
func (l *subscriber) idle() bool {
	probing := l.number == 0 && l.client.mode == modeUnknown && len(l.client.routes) > 0
	return len(l.subs) == 0 && !probing
}

// end closes the connection of an idle subscriber, and ends its session where the protocol
// allows that. client.mu must be held.
func (l *subscriber) end() {
	l.ending = true
	if l.conn.version == packet.V5 {
		l.kept = false
		l.conn.out.addLast(appendLeave)
		return
	}
	l.conn.out.addLast(appendGoodbye)
}

// subscribed reports whether nothing is pending. client.mu must be held.
func (l *subscriber) subscribed() bool {
	switch {
	case l.idle():
		return true
	case l.conn == nil:
		return l.failed
	case l.client.mode == modeUnknown:
		return false
	}
	for _, s := range l.subs {
		if s.wanted && (s.state == stateAbsent || s.state == stateSubscribing || s.state == stateUnsubscribing) {
			return false
		}
	}
	return true
}

// connectOnce makes one connection and serves it. It is done when the subscriber is idle and
// no session is left at the broker.
func (l *subscriber) connectOnce(ctx, serving context.Context) (done bool, err error) {
	idle, p := l.prepare(serving)
	if p == nil {
		return true, nil
	}
	c, err := l.client.dial(ctx, *p)
	if err != nil {
		l.disconnected(err)
		return false, err
	}
	if idle {
		return false, l.endSession(ctx, c)
	}
	if !l.connected(c) {
		return false, c.Close()
	}
	err = l.client.wait(ctx, func() bool { return l.client.plannedVersion == l.client.wantedVersion })
	if err == nil { // messages queued in the session arrive at once
		err = c.serve(ctx, l.handle)
	}
	c.Close()
	if e, ok := errors.AsType[*DisconnectError](err); ok && e.TakenOver() {
		l.received.abandon()
	}
	l.disconnected(err)
	return false, err
}

// prepare returns how to connect, or nil.
func (l *subscriber) prepare(serving context.Context) (idle bool, p *connectParams) {
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	if idle = l.idle(); idle && !l.kept {
		l.running, l.conn = false, nil
		return true, nil
	}
	clean := l.client.options.Session.CleanStart
	return idle, &connectParams{serving: serving, clientID: l.clientID, clean: idle || l.discardSession || clean, keep: !idle && !clean}
}

// endSession ends the session by a connection with Clean Session.
func (l *subscriber) endSession(ctx context.Context, c *conn) error {
	c.out.addLast(appendGoodbye)
	c.serve(ctx, func(byte, []byte, bool) error { return nil }) //nolint:errcheck // the connection is closed on purpose
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	l.kept = false
	return nil
}

// connected records a connection and requests all subscriptions, including those that the
// session may have already: there is no way to know. It returns false if the connection cannot
// be used, because the broker's mode has changed.
func (l *subscriber) connected(c *conn) bool {
	client := l.client
	client.mu.Lock()
	defer client.mu.Unlock()
	m := modeSeparate
	if c.connack.subscriptionIDs {
		m = modeIdentified
	}
	l.kept = !client.options.Session.CleanStart
	if client.mode != modeUnknown && client.mode != m {
		client.resetMode(m)
		return false
	}
	client.attempts.Add(1)
	client.mode, l.conn, l.failed, l.discardSession, l.cause = m, c, false, false, nil
	l.awaitingAck, l.staleIDs = map[uint16][]*subscription{}, map[uint32]bool{}
	for _, s := range l.subs {
		l.resetState(s, c.connack.sessionPresent)
	}
	l.received.open(c, c.connack.sessionPresent)
	l.log.Info("client connected", "version", c.version, "session", c.connack.sessionPresent)
	client.requestPlan()
	return true
}

// resetState sets the state of a subscription at the beginning of a connection. client.mu must
// be held.
func (l *subscriber) resetState(s *subscription, present bool) {
	switch {
	case s.wanted:
		s.state = stateAbsent
	case present:
		s.state = stateGranted
	default:
		l.client.removed(s)
	}
}

// resetMode discards all subscriptions after a change of the broker's mode. c.mu must be held.
func (c *Client) resetMode(m mode) {
	c.mode = m
	for _, r := range c.routes {
		r.sources.Store(nil)
	}
	for _, l := range c.subscribers {
		l.subs, l.discardSession = map[string]*subscription{}, true
		if l.conn != nil {
			l.conn.Close()
		}
	}
	c.requestPlan()
}

// disconnected records that there is no connection, and why.
func (l *subscriber) disconnected(err error) {
	l.received.close()
	var cause error
	if err != nil {
		cause = l.client.options.Explain(err)
	}
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	l.client.attempts.Add(1)
	l.cause = cause
	l.conn, l.failed, l.ending = nil, !l.ending, false
	l.client.notifyChanged()
}

// handle handles a packet.
func (l *subscriber) handle(first byte, body []byte, truncated bool) error {
	switch kind := first >> 4; kind {
	case packet.TypePublish:
		err := l.message.decode(first, body, l.conn.version)
		if err == nil {
			err = l.receive(&l.message, truncated, len(body))
		}
		return err
	case packet.TypePubrel:
		id, _, err := decodeAck(body)
		if err == nil {
			l.received.release(id)
		}
		return err
	case packet.TypeSuback, packet.TypeUnsuback:
		return l.handleAck(kind, body)
	}
	return errMalformed
}

// receive passes a message to its consumers.
func (l *subscriber) receive(p *incoming, truncated bool, size int) error {
	client := l.client
	client.delivering.RLock()
	defer client.delivering.RUnlock()
	if client.leaving {
		return nil // redelivered later, since it is not acknowledged
	}
	var a *receivedMessage
	if p.qos > 0 {
		var err error
		if a, err = l.received.accept(p.id, p.qos, p.dup, size); a == nil {
			return err
		}
		defer a.Committed(nil)
	}
	if truncated {
		l.log.Warn("message discarded: it is too long", "limit", maxPacket)
		return nil
	}
	if !l.isUnwantedRetained(p) && !l.deliver(p, a) {
		l.unsubscribeStale(p)
	}
	return nil
}

// isUnwantedRetained reports whether a message was retained before its subscription and is not
// wanted. MQTT 5 brokers do not send these; in 3.1.1 they have RETAIN [MQTT-3.3.1-8].
func (l *subscriber) isUnwantedRetained(p *incoming) bool {
	return p.retain && l.conn.version != packet.V5 && !l.client.options.Retained
}

// deliver reports whether the message had a consumer.
func (l *subscriber) deliver(p *incoming, a *receivedMessage) (delivered bool) {
	m := messaging.Message{Topic: string(p.topic)}
	for _, match := range l.client.index.Match(m.Topic).Subscribers {
		if !match.Who.accepts(l, p.subscriptionIDs) {
			continue
		}
		if !delivered {
			delivered = true
			p.copyTo(&m, l.client.options.Now().UnixMilli())
			m.Serial = l.client.serials.Add(1)
		}
		for _, in := range *match.Who.consumers.Load() {
			in.take(m, a)
		}
	}
	return delivered
}

// accepts reports whether a message received by a subscriber with these subscription
// identifiers belongs to the route.
func (r *route) accepts(l *subscriber, by []uint32) bool {
	src := r.sources.Load()
	return src != nil && (src.current.delivers(l, by) || src.previous != nil && src.previous.delivers(l, by))
}

func (s *subscription) delivers(l *subscriber, by []uint32) bool {
	if s.subscriber != l {
		return false
	}
	for _, id := range by {
		if id == s.id {
			return true
		}
	}
	return s.id == 0 || len(by) == 0
}

// copyTo sets the fields of m without sharing memory with the connection.
func (p *incoming) copyTo(m *messaging.Message, now int64) {
	p.refer(m, now)
	buf := make([]byte, 0, len(p.payload)+len(p.properties))
	buf = append(append(buf, p.payload...), p.properties...)
	n := len(p.payload)
	m.Payload, m.Properties = buf[:n:n], buf[n:]
}

// refer sets the fields of m, whose bytes are valid until the next packet.
func (p *incoming) refer(m *messaging.Message, now int64) {
	m.Payload, m.Properties, m.QoS, m.Retain, m.At = p.payload, p.properties, p.qos, p.retain, now
	if p.expiry > 0 {
		m.ExpiresAt = now + int64(p.expiry)*1000
	}
}

// take passes a message to the consumer; a is nil at QoS 0.
func (in *consumer) take(m messaging.Message, a *receivedMessage) {
	switch {
	case in.cancelled:
	case a != nil && in.Keeps():
		a.unsettled.Add(1)
		in.Take(m, a)
	default:
		in.Take(m, nil)
	}
}

// unsubscribeStale unsubscribes from filters that an earlier run left in the session, when a
// message arrives by them.
func (l *subscriber) unsubscribeStale(p *incoming) {
	for _, id := range p.subscriptionIDs {
		if l.staleIDs[id] {
			continue
		}
		l.staleIDs[id] = true
		filter, found := findFilter(string(p.topic), id)
		l.client.mu.Lock()
		if _, known := l.subs[filter]; found && !known {
			l.unsubscribe([]string{filter}, nil)
		}
		l.client.mu.Unlock()
	}
}
