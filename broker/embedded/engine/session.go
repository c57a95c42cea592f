package engine

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Session is the state of a client id: subscriptions, and the messages that wait for
// the client or are in flight [MQTT-3.1.2.11.2]. It outlives connections; conn is the
// one that has it. Its parts are structs of their own, which mu guards together: one
// record of the store is made of all of them.
type Session struct {
	id         uint64
	clientID   string
	username   string
	anonymous  bool
	created    int64
	engine     *Engine
	generation *generation // in which it began here
	counts     counts
	scheduled  scheduledAt // guarded by the schedule
	peer       *Peer       // that it represents; nil for a client's

	mu         sync.Mutex // guards what follows; see DESIGN.md for the order of locks
	conn       *Conn      // nil while the client is away
	ended      bool       // nothing may be added any more
	stored     bool       // the store knows it
	expiry     uint32     // seconds after the connection's end
	rights     Rights
	client     lastConnect
	will       storedWill
	subscribed subscriptionSet
	out        outgoingQueue
	sending    sendLimits
	incoming   incomingQoS2
	transfer   transferState
	charged    int64 // to QuotaSessionBytes, but for the queue
}

// lastConnect is what the latest connection of a session brought with it.
type lastConnect struct {
	timestamp   uint64 // of its CONNECT; 0 where not known
	protocol    string // MQTT or MQTT-WS; "" where not known
	address     string
	connectedAt int64
	goneAt      int64 // 0 while connected
	lastGone    int64 // 0 for a client that never disconnected
	keepAlive   uint16
	version     byte // of MQTT
	clean       bool
}

// storedWill is the Will of a session.
type storedWill struct {
	record *WillRecord // nil for none
	dueAt  int64       // 0 while connected
	stored bool        // the store knows the session for its Will only, and nothing else of it
}

// subscriptionSet is the subscriptions of a session, and what other nodes know of them.
type subscriptionSet struct {
	options   map[string]topics.Options // by filter; nil for none
	announced announcedTo
}

// sendLimits bound what is sent on the connection of a session.
type sendLimits struct {
	window    int     // QoS 1 and 2 messages in flight at once
	maxPacket uint32  // of the client; 0 for no limit
	toBridge  bool    // the client is a bridge that gets the path of messages
	aliases   aliases // for topics
}

// transferState is the move of a session from one engine to another.
type transferState struct {
	moving    bool        // nothing is scheduled meanwhile
	adoptions int         // that are not closed
	keys      messageKeys // of messages that came with it and may arrive again until then; nil for none
}

// counts are a session's totals since it began, or since the start.
type counts struct {
	published, publishedBytes atomic.Int64 // from the client
	delivered, deliveredBytes atomic.Int64 // to the client
	dropped                   [dropReasons]atomic.Int64
}

func newSession(e *Engine, clientID string) *Session {
	s := &Session{
		engine: e, clientID: clientID, id: e.lastSession.Add(1), created: e.now(),
		out: newOutgoingQueue(), client: lastConnect{version: 4},
	}
	s.out.memory.total = &e.queuedMemory
	return s
}

// keeps reports whether the session outlives its connection. mu is held.
func (s *Session) keeps() bool { return s.expiry > 0 }

// record is the session as the store keeps it. mu is held.
func (s *Session) record() SessionRecord {
	return SessionRecord{
		ID: s.id, ClientID: s.clientID, Username: s.username, Anonymous: s.anonymous,
		Version: s.client.version, Clean: s.client.clean, KeepAlive: s.client.keepAlive, ExpiryInterval: s.expiry,
		CreatedAt: s.created, ConnectedAt: s.client.connectedAt, DisconnectedAt: s.client.goneAt, Address: s.client.address,
		Will: s.will.record, WillDueAt: s.will.dueAt, SentSeq: s.out.upTo,
	}
}

// put has the store keep the session as it is now, together with other changes.
// mu is held, so that of two records the store has the later one last; a session
// that has ended is not put any more.
func (s *Session) put(c *Changes) {
	if !s.ended {
		c.PutSessions = append(c.PutSessions, s.record())
	}
	s.generation.submit(c)
}

// outgoingMessage is a message for a session, as its subscriptions ask for it.
type outgoingMessage struct {
	message *Message
	extra   *extra
	qos     byte // of delivery
	retain  bool

	extraRoom bool // the bounds of the queue do not count
	uncharged bool // the quota of stored messages does not count
}

// acceptance is the outcome of an offer.
type acceptance struct {
	flush *Conn  // to be flushed; nil for none
	seq   uint64 // under which the message must be stored first; 0 where it need not
	over  bool   // a quota forbids to store the message
}

// accept queues a message.
func (s *Session) accept(o outgoingMessage) acceptance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return acceptance{}
	}
	if o.qos == 0 {
		return acceptance{flush: s.acceptQoS0(o)}
	}
	if s.conn == nil && !s.keeps() || s.transfer.keys != nil && s.transfer.keys.has(messageKeyOf(o.message.Stamp, o.extra, o.retain)) || s.overfull(o) {
		return acceptance{}
	}
	e := newEntry(o.message, o.extra, o.qos, o.retain)
	if s.stored && !s.charge(&e, o.uncharged) {
		return acceptance{over: true}
	}
	s.out.expiring = s.out.expiring || o.message.ExpiresAt != 0
	s.out.shares = s.out.shares || o.extra != nil && o.extra.share != ""
	if s.stored {
		return acceptance{seq: s.out.push(&e)}
	}
	e.state = committed
	s.out.push(&e)
	return acceptance{flush: s.conn}
}

// queued is an accepted message as the store keeps it.
func (s *Session) queued(o *outgoingMessage, seq uint64) QueueRecord {
	r := QueueRecord{SessionID: s.id, Seq: seq, Message: o.message, QoS: o.qos, Retain: o.retain}
	if o.extra != nil {
		r.SubscriptionIDs, r.Share = o.extra.ids, o.extra.share
	}
	return r
}

// charge counts a message that is about to be stored, unless a quota forbids it. mu is
// held.
func (s *Session) charge(e *entry, always bool) bool {
	if always {
		s.out.charge(e)
		return true
	}
	what := s.out.take(e)
	if what == quotaReasons {
		return true
	}
	s.drop(DropQuota, 1)
	s.engine.refused(what, s.clientID, s.username)
	return false
}

// acceptQoS0 queues a message of QoS 0, for a client that is there.
func (s *Session) acceptQoS0(o outgoingMessage) *Conn {
	if s.conn == nil || s.overfull(o) {
		return nil
	}
	s.out.qos0.push(qos0Message{message: o.message, extra: o.extra, after: s.out.tail - 1, retain: o.retain})
	s.out.bytes += int64(o.message.size())
	return s.conn
}

// overfull reports whether a message finds no room; it is the newcomer that loses.
func (s *Session) overfull(o outgoingMessage) bool {
	c := &s.engine.config
	if o.extraRoom || s.out.waiting() < c.MaxQueuedMessages && s.out.bytes+int64(o.message.size()) <= c.MaxQueuedBytes {
		return false
	}
	s.drop(DropQueueFull, 1)
	if c.DisconnectSlow && s.conn != nil {
		s.conn.endSoon(packet.ReasonQuotaExceeded)
	}
	return true
}

// drop counts messages that the client does not get.
func (s *Session) drop(why DropReason, n int) {
	if n > 0 {
		s.counts.dropped[why].Add(int64(n))
		s.engine.meters.drop(why, n)
	}
}

// messageCommitted makes a message sendable that was stored now, or gives it up where it
// could not be. It returns the connection to be flushed, or tells that the session
// has ended and the message been left in the store.
func (s *Session) messageCommitted(seq uint64, stored bool) (flush *Conn, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.out.get(seq)
	if e == nil {
		return nil, stored && s.ended
	}
	if !stored {
		s.out.finish(e)
		s.drop(DropNotStored, 1)
		return nil, false
	}
	e.state |= committed
	s.noteStored(e)
	return s.conn, s.ended
}

// fill moves what may be sent to the connection's client into a batch. Packets
// that were queued before a message came go before it: none comes meanwhile. It
// reports whether messages that come next are being read from the store; the
// connection is flushed when they are there.
func (s *Session) fill(c *Conn, b *batch) (loading bool) {
	now := s.engine.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return false
	}
	c.takeBefore(b)
	var gone []QueueRecord
	for !b.full() {
		e, waits := s.out.sendable(s.sending.window)
		switch {
		case s.out.qos0Sendable(waits):
			s.sendQoS0(b, now)
		case e == nil:
			s.forget(gone)
			return false
		case e.state&released != 0:
			b.control(packet.AppendAck(nil, s.client.version, packet.TypePubrel, identifier(e.seq), 0, ""), 1)
			s.out.launch(e)
		case e.message == nil && e.expired(now):
			s.drop(DropExpired, 1)
			gone = append(gone, s.abandon(e))
		case e.message == nil:
			s.forget(gone)
			return s.load()
		default:
			d := e.delivery()
			if !s.deliver(&d, b, now) {
				gone = append(gone, s.abandon(e))
				continue
			}
			s.out.launch(e)
		}
	}
	s.forget(gone)
	return false
}

func (e *entry) delivery() delivery {
	return delivery{
		message: e.message, extra: e.extra, id: identifier(e.seq), qos: e.qos,
		dup: e.state&sent != 0, retain: e.retain,
	}
}

func (s *Session) sendQoS0(b *batch, now int64) {
	p := s.out.qos0.pop()
	s.out.bytes -= int64(p.message.size())
	d := delivery{message: p.message, extra: p.extra, retain: p.retain}
	s.deliver(&d, b, now)
}

// deliver puts a message into a batch, if it may still be sent and the client
// takes it.
func (s *Session) deliver(d *delivery, b *batch, now int64) bool {
	s.sending.aliases.apply(d)
	if s.sending.toBridge {
		d.bridgeProperties = s.engine.toBridge(d.message)
	}
	if !s.fits(d.message, *d, now) {
		return false
	}
	b.deliver(d, s.client.version, now)
	s.sending.aliases.learn(d)
	s.counts.delivered.Add(1)
	s.counts.deliveredBytes.Add(int64(len(d.message.Payload)))
	return true
}

// fits reports whether a message may still be sent, and in a packet that the
// client takes [MQTT-3.1.2-25]. What was sent at QoS 2 does not expire
// [MQTT-4.3.3-7].
func (s *Session) fits(m *Message, d delivery, now int64) bool {
	if m.expired(now) && !(d.qos == 2 && d.dup) {
		s.drop(DropExpired, 1)
		return false
	}
	if s.sending.maxPacket == 0 {
		return true
	}
	o := d.packet(s.client.version, now)
	if packet.PublishSize(s.client.version, &o) <= int(s.sending.maxPacket) {
		return true
	}
	s.drop(DropTooLarge, 1)
	return false
}

// abandon ends a message that is not delivered.
func (s *Session) abandon(e *entry) QueueRecord {
	r := QueueRecord{SessionID: s.id, Seq: e.seq}
	s.out.finish(e)
	return r
}

// forget submits that messages are done with. mu may be held: the
// store never waits here.
func (s *Session) forget(gone []QueueRecord) {
	if s.stored && len(gone) > 0 {
		s.generation.submit(&Changes{Owed: true, Dequeued: gone})
	}
}

// acknowledge handles PUBACK, PUBCOMP and a PUBREC that refuses: the message is
// done with. One that the client never had is passed over.
func (s *Session) acknowledge(c *Conn, a packet.Ack, into *Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return nil
	}
	e := s.out.find(a.PacketID)
	if e == nil {
		return nil
	}
	if !expects(e, a) {
		return errWrongAck
	}
	r := s.abandon(e)
	if s.stored {
		into.Dequeued = append(into.Dequeued, r)
	}
	return nil
}

// errWrongAck ends a connection whose client acknowledges a message as one of
// another QoS, or out of turn [MQTT-4.13.1-1].
var errWrongAck = &packet.Error{Reason: packet.ReasonProtocolError, Text: "an acknowledgement that does not fit the message"}

// expects reports whether an acknowledgement is the one that ends a message.
func expects(e *entry, a packet.Ack) bool {
	switch a.Type {
	case packet.TypePuback:
		return e.qos == 1
	case packet.TypePubrec:
		return e.qos == 2 && e.state&released == 0
	default:
		return e.qos == 2 && e.state&released != 0
	}
}

// received is the outcome of a PUBREC.
type received int

const (
	unknown  received = iota // no such message was sent
	repeated                 // PUBREL may go out at once
	noted                    // PUBREL must wait until that is stored
	wrong                    // the message is none of QoS 2
)

// release notes that the client has a message of QoS 2.
func (s *Session) release(c *Conn, id uint16) (received, QueueRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != c {
		return unknown, QueueRecord{}
	}
	e := s.out.find(id)
	if e == nil {
		return unknown, QueueRecord{}
	}
	if e.qos != 2 {
		return wrong, QueueRecord{}
	}
	r := QueueRecord{SessionID: s.id, Seq: e.seq, Released: true}
	again := e.state&released != 0
	s.out.release(e)
	if again || !s.stored {
		return repeated, r
	}
	e.state &^= committed // until it is stored that the client has it
	return noted, r
}

func (s *Session) isStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored
}
