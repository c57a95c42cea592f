package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// ErrNoClient reports that there is no session of the client id, or none whose
// client is connected where one is needed.
var ErrNoClient = errors.New("client not found")

// ErrBounds reports that a subscription exceeds the bounds of the configuration.
var ErrBounds = errors.New("the subscription exceeds the bounds of the configuration")

// Info describes a session.
type Info struct {
	ClientID       string
	Username       string
	Anonymous      bool
	Address        string
	Protocol       string // MQTT or MQTT-WS; "" for a session restored from the store
	Version        byte   // 3, 4 or 5
	Connected      bool
	CleanStart     bool   // the session began with it
	KeepAlive      uint16 // seconds
	Expiry         uint32 // seconds
	CreatedAt      int64  // epoch milliseconds, as all times here
	ConnectedAt    int64
	GoneAt         int64 // 0 for a client that never disconnected
	Will           *WillRecord
	Listener       Listener
	Socket         *Socket // nil while the client is away
	Subscribed     int
	MaxPacket      uint32
	Queue          QueueInfo
	Published      int64 // messages from the client
	PublishedBytes int64
	Delivered      int64 // messages to the client
	DeliveredBytes int64
	Dropped        [dropReasons]int64 // messages that the client did not get, by DropReason
}

// QueueInfo describes the queue and the in-flight messages of a client.
type QueueInfo struct {
	Messages, Bytes       int64 // queued or in flight to the client
	MessagesQoS12         int64
	MessagesMax, BytesMax int64
	Inflight              int64 // sent to the client and not acknowledged
	InflightBytes         int64
	InflightMax           int64
	Incoming              int64 // sent by the client and not acknowledged
	IncomingMax           int64
}

// Clients returns a part of the sessions, in order of client ids, and the number of all. A
// negative count means all. The cost does not depend on the offset; details are read during
// the iteration.
func (e *Engine) Clients(offset, count int) (total int, part func(yield func(Info) bool)) {
	total, _, sessions := e.part(offset, count)
	return total, func(yield func(Info) bool) {
		for s := range sessions {
			if !yield(s.info()) {
				return
			}
		}
	}
}

// part returns a part of the sessions of now, in order of client ids, the number of them and
// that of all.
func (e *Engine) part(offset, count int) (total, n int, sessions iter.Seq[*Session]) {
	snapshot := e.snapshot()
	total = snapshot.Len()
	n = max(total-offset, 0)
	if count >= 0 {
		n = min(count, n)
	}
	return total, n, func(yield func(*Session) bool) {
		for i := offset; i < offset+n; i++ {
			s, ok := snapshot.GetAt(i)
			if !ok || !yield(s) {
				return
			}
		}
	}
}

// Client returns the session of a client id, with its subscriptions in order.
func (e *Engine) Client(clientID string) (Info, []Subscription, error) {
	s := e.session(clientID)
	if s == nil {
		return Info{}, nil, ErrNoClient
	}
	return s.info(), s.subscriptions(), nil
}

// Subscription is a subscription with its options. Filter begins with $share/name/ if it is
// shared.
type Subscription struct {
	Filter   string
	ClientID string
	Username string
	topics.Options
}

func (s *Session) subscriptions() []Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Subscription, 0, len(s.subscribed.options))
	for filter, o := range s.subscribed.options {
		list = append(list, Subscription{Filter: filter, ClientID: s.clientID, Username: s.username, Options: o})
	}
	slices.SortFunc(list, func(a, b Subscription) int {
		if a.Filter < b.Filter {
			return -1
		}
		return 1
	})
	return list
}

// Subscriptions returns a part of all subscriptions whose filter is accepted (nil accepts
// all), in order of filters, and the number of all of them.
func (e *Engine) Subscriptions(offset, count int, accept func(filter string) bool) (total int, part []Subscription) {
	total, entries := e.index.List(offset, count, accept)
	for _, entry := range entries {
		part = append(part, Subscription{
			Filter: entry.Filter, ClientID: entry.Who.clientID, Username: entry.Who.username, Options: entry.Options,
		})
	}
	return total, part
}

// info returns the Info of the session.
func (s *Session) info() Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := Info{
		ClientID: s.clientID, Username: s.username, Anonymous: s.anonymous, Address: s.client.address, Protocol: s.client.protocol,
		Version: s.client.version, Connected: s.conn != nil, CleanStart: s.client.clean, KeepAlive: s.client.keepAlive, Expiry: s.expiry,
		CreatedAt: s.created, ConnectedAt: s.client.connectedAt, GoneAt: s.client.lastGone, Will: s.will.record,
		Subscribed: len(s.subscribed.options), MaxPacket: s.sending.maxPacket, Queue: s.queueInfo(),
		Published: s.counts.published.Load(), PublishedBytes: s.counts.publishedBytes.Load(),
		Delivered: s.counts.delivered.Load(), DeliveredBytes: s.counts.deliveredBytes.Load(),
	}
	for r := range i.Dropped {
		i.Dropped[r] = s.counts.dropped[r].Load()
	}
	if c := s.conn; c != nil {
		i.Socket, i.Listener = c.socket, c.socket.Listener
	}
	return i
}

// queueInfo returns the QueueInfo of the session. mu is held.
func (s *Session) queueInfo() QueueInfo {
	q := QueueInfo{
		Messages: int64(s.out.waiting()), Bytes: s.out.bytes, MessagesQoS12: int64(s.out.live),
		MessagesMax: int64(s.engine.config.MaxQueuedMessages), BytesMax: s.engine.config.MaxQueuedBytes,
		Inflight: int64(s.out.inflight), InflightMax: int64(s.sending.window),
		Incoming: int64(len(s.incoming.ids)), IncomingMax: int64(s.engine.config.ReceiveMaximum),
	}
	for e := range s.out.all() {
		if e.seq >= s.out.next {
			break
		}
		q.InflightBytes += int64(e.size)
	}
	return q
}

// Disconnect ends a client's connection as an administrative action.
func (e *Engine) Disconnect(clientID string) error {
	s := e.session(clientID)
	if s == nil {
		return ErrNoClient
	}
	c := s.connection()
	if c == nil {
		return ErrNoClient
	}
	c.end(packet.ReasonAdministrativeAction, false)
	return nil
}

// Forget ends the session of a client id, and its connection if there is one.
func (e *Engine) Forget(ctx context.Context, clientID string) error {
	s := e.session(clientID)
	if s == nil {
		return ErrNoClient
	}
	for !e.end(s) {
		c := s.connection()
		if c == nil && e.session(clientID) != s {
			return nil // another caller has ended it
		}
		if c == nil {
			continue // the connection has just ended
		}
		c.end(packet.ReasonAdministrativeAction, false)
		select {
		case <-c.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for the client's connection to end: %w", context.Cause(ctx))
		}
	}
	return nil
}

// SubscribeClient subscribes a session on its client's behalf.
func (e *Engine) SubscribeClient(clientID, filter string, o topics.Options) error {
	s := e.session(clientID)
	if s == nil {
		return ErrNoClient
	}
	_, _, shared := packet.SplitShared(filter)
	g := grant{filter: filter, options: o, shared: shared}
	if !e.validDepth(filter) || !s.reserve(&g, map[string]struct{}{}) {
		return ErrBounds
	}
	if err := e.storeSubscriptions(s, []grant{g}); err != nil {
		g.unreserve()
		return err
	}
	g.replaced = e.subscribe(s, g)
	e.awaitRoutes()
	e.sendRetained(s, g)
	return nil
}

// UnsubscribeClient removes a subscription of a session. It reports whether there was one.
func (e *Engine) UnsubscribeClient(clientID, filter string) (bool, error) {
	s := e.session(clientID)
	if s == nil {
		return false, ErrNoClient
	}
	if !e.unsubscribe(s, filter) {
		return false, nil
	}
	if s.isStored() {
		gone := []SubscriptionRecord{{SessionID: s.id, Filter: filter}}
		return true, s.commit(&Changes{Owed: true, Unsubscribed: gone})
	}
	return true, nil
}

// Retained returns a part of the retained messages whose topics a filter matches ("" for
// all), in order of topics, and the number of all of them.
func (e *Engine) Retained(filter string, offset, count int) (total int, part []*Message) {
	if e.retained.expiring.Load() {
		e.sweepRetained(e.now())
	}
	total, kept := e.retained.index.Page(filter, offset, count)
	for _, k := range kept {
		part = append(part, k.Message)
	}
	return total, part
}

// RetainedOf returns the retained message of a topic.
func (e *Engine) RetainedOf(topic string) (*Message, bool) {
	m, ok := e.retained.index.Get(topic)
	return m, ok && !m.expired(e.now())
}

// DeleteRetained clears the retained message of a topic and reports whether there was one.
// Subscribers are not notified.
func (e *Engine) DeleteRetained(topic string) (bool, error) {
	outcome := make(result, 1)
	if !e.deleteRetained(topic, outcome) {
		return false, nil
	}
	err := <-outcome
	return err == nil, err
}

// deleteRetained clears a topic's retained message, if it has one, and submits that to the
// store.
func (e *Engine) deleteRetained(topic string, outcome result) bool {
	r := e.retained
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, had := r.index.Get(topic); !had {
		return false
	}
	if !isDurable(topic) {
		r.remove(topic)
		outcome <- nil
		return true
	}
	pub := e.newPublication()
	pub.agreed = r.agreed
	r.beginChange(pub, topic, nil)
	r.remove(topic)
	pub.done, pub.Retained = outcome, append(pub.Retained, RetainedRecord{Topic: topic})
	pub.store()
	return true
}

// EachSubscription returns the subscriptions of a client ("" for all clients), in order of
// client ids and filters.
func (e *Engine) EachSubscription(clientID string) iter.Seq[Subscription] {
	sessions := []*Session{}
	if clientID == "" {
		sessions = e.all()
	} else if s := e.session(clientID); s != nil {
		sessions = append(sessions, s)
	}
	return func(yield func(Subscription) bool) {
		for _, s := range sessions {
			for _, one := range s.subscriptions() {
				if !yield(one) {
					return
				}
			}
		}
	}
}

// Expel ends the connections of clients for which unwanted returns true.
func (e *Engine) Expel(unwanted func(ClientEvent, *Socket) bool) {
	e.mu.Lock()
	open := make([]*Conn, 0, len(e.conns))
	for c := range e.conns {
		open = append(open, c)
	}
	e.mu.Unlock()
	for _, c := range open {
		if c.established.Load() && unwanted(c.event(), c.socket) {
			c.end(packet.ReasonBanned, false)
		}
	}
}
