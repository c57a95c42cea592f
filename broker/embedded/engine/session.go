package engine

import (
	"sync"
	"sync/atomic"

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

func (s *Session) isStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored
}
