package client

import (
	"context"
	"fmt"
	"log/slog"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// lane is one session with subscriptions, and its connection when it has one.
type lane struct {
	feed     *Feed
	number   int
	clientID string
	log      *slog.Logger
	inbox    inbox

	// The reader's own.
	message  incoming
	searched map[uint32]bool // identifiers of subscriptions that nobody here has made

	// Guarded by the feed.
	subs    map[string]*sub
	running bool
	kept    bool  // the broker may keep a session
	fresh   bool  // what the broker keeps must not be gone on with
	cause   error // of that
	failed  bool  // the last attempt to connect, or the last connection
	ending  bool  // the connection is being ended by us
	conn    *conn
	asked   map[uint16][]*sub // by packets that are not answered yet
	nextID  uint16
}

func newLane(f *Feed, number int) *lane {
	return &lane{feed: f, number: number, clientID: fmt.Sprintf("%s-%x", f.options.ClientID, number),
		log: f.log.With("lane", number), subs: map[string]*sub{}}
}

// start sets the lane going. The caller holds the feed's mu.
func (l *lane) start(ctx context.Context) {
	if !l.running {
		l.running, l.failed = true, false
		l.feed.lanes.Go(func() { l.feed.keep(ctx, l.log, l.attend) })
	}
}

// idle tells whether nothing is left to be done. The caller holds the feed's mu.
func (l *lane) idle() bool {
	scouts := l.number == 0 && l.feed.mode == unknown && len(l.feed.routes) > 0
	return len(l.subs) == 0 && !scouts
}

// end ends the connection of a lane that is idle, and its session where that can
// be asked for. The caller holds the feed's mu.
func (l *lane) end() {
	l.ending = true
	if l.conn.version == packet.V5 {
		l.kept = false
		l.conn.out.end(appendLeave)
		return
	}
	l.conn.out.end(appendGoodbye)
}

// settled tells whether nothing is under way. The caller holds the feed's mu.
func (l *lane) settled() bool {
	switch {
	case l.idle():
		return true
	case l.conn == nil:
		return l.failed
	case l.feed.mode == unknown:
		return false
	}
	for _, s := range l.subs {
		if s.wanted && (s.state == absent || s.state == asked || s.state == leaving) {
			return false
		}
	}
	return true
}

// attend makes one connection and serves it to its end. It is done when nothing
// is left to be done, and no session is left at the broker.
func (l *lane) attend(ctx context.Context) (done bool, err error) {
	idle, as := l.prepare()
	if as == nil {
		return true, nil
	}
	c, err := l.feed.dial(ctx, *as)
	if err != nil {
		l.down(err)
		return false, err
	}
	if idle {
		return false, l.forget(ctx, c)
	}
	if !l.up(c) {
		return false, c.Close()
	}
	err = l.feed.wait(ctx, func() bool { return l.feed.planned == l.feed.version })
	if err == nil { // what a session has kept comes at once
		err = c.serve(ctx, l.handle)
	}
	c.Close()
	l.down(err)
	return false, err
}

// prepare says how to connect, nil for not at all.
func (l *lane) prepare() (idle bool, as *login) {
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	if idle = l.idle(); idle && !l.kept {
		l.running, l.conn = false, nil
		return true, nil
	}
	clean := l.feed.options.Client.Clean
	return idle, &login{clientID: l.clientID, clean: idle || l.fresh || clean, keep: !idle && !clean}
}

// forget ends the session on a connection that threw it away: what begins with a
// clean one ends with it.
func (l *lane) forget(ctx context.Context, c *conn) error {
	c.out.end(appendGoodbye)
	c.serve(ctx, func(byte, []byte, bool) error { return nil }) //nolint:errcheck // its end was asked for
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	l.kept = false
	return nil
}

// up shows a connection and has everything asked for that is wanted, also what
// the session may hold already: nobody can tell for sure. It answers false where
// the connection cannot be used, because another broker answers than before.
func (l *lane) up(c *conn) bool {
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	m := apart
	if c.allowed.identified {
		m = identified
	}
	l.kept = !f.options.Client.Clean
	if f.mode != unknown && f.mode != m {
		f.begin(m)
		return false
	}
	f.tries.Add(1)
	f.mode, l.conn, l.failed, l.fresh, l.cause = m, c, false, false, nil
	l.asked, l.searched = map[uint16][]*sub{}, map[uint32]bool{}
	for _, s := range l.subs {
		l.renew(s, c.allowed.present)
	}
	l.inbox.open(c.out, c.allowed.present)
	l.log.Info("client connected", "version", c.version, "session", c.allowed.present)
	f.touch()
	return true
}

// renew sets the state of a subscription at the beginning of a connection. The
// caller holds the feed's mu.
func (l *lane) renew(s *sub, present bool) {
	switch {
	case s.wanted:
		s.state = absent
	case present:
		s.state = granted
	default:
		l.feed.gone(s)
	}
}

// begin begins anew with a broker that tells messages apart in another way than
// before. The caller holds mu.
func (f *Feed) begin(m mode) {
	f.mode = m
	for _, r := range f.routes {
		r.from.Store(nil)
	}
	for _, l := range f.lane {
		l.subs, l.fresh = map[string]*sub{}, true
		if l.conn != nil {
			l.conn.Close()
		}
	}
	f.touch()
}

// down notes that there is no connection, and why.
func (l *lane) down(err error) {
	l.inbox.close()
	var cause error
	if err != nil {
		cause = l.feed.options.Explain(err)
	}
	l.feed.mu.Lock()
	defer l.feed.mu.Unlock()
	l.feed.tries.Add(1)
	l.cause = cause
	l.conn, l.failed, l.ending = nil, !l.ending, false
	l.feed.announce()
}

// handle takes a packet.
func (l *lane) handle(first byte, body []byte, cut bool) error {
	switch kind := first >> 4; kind {
	case packet.TypePublish:
		err := l.message.decode(first, body, l.conn.version)
		if err == nil {
			err = l.take(&l.message, cut, len(body))
		}
		return err
	case packet.TypePubrel:
		id, _, err := decodeAck(body)
		if err == nil {
			l.inbox.release(id)
		}
		return err
	case packet.TypeSuback, packet.TypeUnsuback:
		return l.answered(kind, body)
	}
	return errMalformed
}

// take hands a message of a size to those that want it.
func (l *lane) take(p *incoming, cut bool, size int) error {
	f := l.feed
	f.delivering.RLock()
	defer f.delivering.RUnlock()
	if f.left {
		return nil // it will come again, as it is not acknowledged
	}
	var a *arrival
	if p.qos > 0 {
		var err error
		if a, err = l.inbox.admit(p.id, p.qos, p.dup, size); a == nil {
			return err
		}
		defer a.Settled(nil)
	}
	if cut {
		l.log.Warn("message passed over: it is too long", "limit", maxPacket)
		return nil
	}
	if !l.stale(p) && !l.deliver(p, a) {
		l.search(p)
	}
	return nil
}

// stale tells whether a message was there before its subscription, and is not
// wanted. MQTT 5 sends none of these; before, RETAIN tells them [MQTT-3.3.1-8].
func (l *lane) stale(p *incoming) bool {
	return p.retain && l.conn.version != packet.V5 && !l.feed.options.Retained
}

// deliver tells whether there was somebody to deliver to.
func (l *lane) deliver(p *incoming, a *arrival) (led bool) {
	m := messaging.Message{Topic: string(p.topic)}
	for _, match := range l.feed.index.Match(m.Topic).Subscribers {
		if !match.Who.leads(l, p.by) {
			continue
		}
		if !led {
			led = true
			p.fill(&m, l.feed.options.Now().UnixMilli())
			m.Serial = l.feed.serials.Add(1)
		}
		for _, in := range *match.Who.inlets.Load() {
			in.offer(m, a)
		}
	}
	return led
}

// leads tells whether a message that came on a lane, by the subscriptions with
// these identifiers, goes to the inlets of a route.
func (r *route) leads(l *lane, by []uint32) bool {
	from := r.from.Load()
	return from != nil && (from.now.brings(l, by) || from.before != nil && from.before.brings(l, by))
}

func (s *sub) brings(l *lane, by []uint32) bool {
	if s.lane != l {
		return false
	}
	for _, id := range by {
		if id == s.id {
			return true
		}
	}
	return s.id == 0 || len(by) == 0
}

// fill makes a message that does not share memory with the connection.
func (p *incoming) fill(m *messaging.Message, now int64) {
	room := make([]byte, 0, len(p.payload)+len(p.properties))
	room = append(append(room, p.payload...), p.properties...)
	n := len(p.payload)
	m.Payload, m.Properties, m.QoS, m.At = room[:n:n], room[n:], p.qos, now
	m.Retain = p.retain
	if p.expiry > 0 {
		m.ExpiresAt = now + int64(p.expiry)*1000
	}
}

// offer gives a message to an inlet; a is nil for one of QoS 0.
func (in *inlet) offer(m messaging.Message, a *arrival) {
	switch {
	case in.gone:
	case a != nil && in.Keeps():
		a.parts.Add(1)
		in.Take(m, a)
	default:
		in.Take(m, nil)
	}
}

// search unsubscribes from what an earlier run has left behind in the session, as
// soon as a message comes by it.
func (l *lane) search(p *incoming) {
	for _, id := range p.by {
		if l.searched[id] {
			continue
		}
		l.searched[id] = true
		filter, found := origin(string(p.topic), id)
		l.feed.mu.Lock()
		if _, known := l.subs[filter]; found && !known {
			l.unsubscribe([]string{filter}, nil)
		}
		l.feed.mu.Unlock()
	}
}
