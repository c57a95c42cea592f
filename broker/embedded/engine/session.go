package engine

import (
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/topics"
)

// Session is the state of a client id: subscriptions, and the messages that wait for the
// client or are in flight [MQTT-3.1.2.11.2]. It outlives connections; conn is the present
// one. Its parts are structs of their own, which mu guards together: one record of the store
// is made of all of them, and its changes are submitted in their order.
type Session struct {
	id         uint64
	clientID   string
	username   string
	anonymous  bool
	created    int64
	engine     *Engine
	generation *generation // in which it began at this engine
	counts     counts
	scheduled  due   // guarded by the schedule
	peer       *Peer // that it represents; nil for a client

	mu         sync.Mutex // guards what follows; see DESIGN.md for the order of locks
	conn       *Conn      // nil while the client is away
	ended      bool       // nothing more may be added
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
	charged    int64 // to QuotaSessionBytes, without the queue
}

// lastConnect is the properties of the latest connection of a session.
type lastConnect struct {
	timestamp   uint64 // of its CONNECT; 0 if not known
	protocol    string // MQTT or MQTT-WS; "" if not known
	address     string
	connectedAt int64
	goneAt      int64 // 0 while connected
	lastGone    int64 // 0 for a client that never disconnected
	keepAlive   uint16
	version     byte // of MQTT
	clean       bool // the session began with Clean Start
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
	toBridge  bool    // the client is a bridge that gets the path of messages in a user property
	aliases   aliases // for topics
}

// transferState is the state of a session that moves from one engine to another.
type transferState struct {
	moving    bool            // Will and expiry are not due
	adoptions int             // not closed, and watches that have not ended
	watches   int             // of duplicates, that have not ended; see WatchDuplicates
	keys      messageKeys     // messages that moved with the session, or have arrived during a watch, and may arrive again until the adoptions are closed
	direct    *directMessages // nil if it need not be known
	arrived   uint64          // when it began here or came, an event of receivedLog
	left      uint64          // when it was frozen, likewise; 0 if it is not
	received  []uint64        // what it has received elsewhere and may be sent here again, by stamp, in order
	untold    bool            // its client may not know that it began; see Session.isUntold
}

// counts are a session's totals since it began or the process started.
type counts struct {
	published, publishedBytes atomic.Int64 // from the client
	delivered, deliveredBytes atomic.Int64 // to the client
	dropped                   [dropReasons]atomic.Int64
}

func newSession(e *Engine, clientID string) *Session {
	s := &Session{
		engine: e, clientID: clientID, id: e.lastSession.Add(1), created: e.now(),
		transfer: transferState{arrived: e.received.event()},
		out:      newOutgoingQueue(), client: lastConnect{version: 4},
	}
	s.out.memory.total = &e.queuedMemory
	return s
}

// keeps reports whether the session outlives its connection. mu is held.
func (s *Session) keeps() bool { return s.expiry > 0 }

// record returns the session as the store has it. mu is held.
func (s *Session) record() SessionRecord {
	return SessionRecord{
		ID: s.id, ClientID: s.clientID, Username: s.username, Anonymous: s.anonymous,
		Version: s.client.version, Clean: s.client.clean, KeepAlive: s.client.keepAlive, ExpiryInterval: s.expiry,
		CreatedAt: s.created, ConnectedAt: s.client.connectedAt, DisconnectedAt: s.client.goneAt, Address: s.client.address,
		Will: s.will.record, WillDueAt: s.will.dueAt, SentSeq: s.out.upTo,
	}
}

// put submits the present record of the session together with other changes. A session that
// has ended is not put. mu is held, so that the records of a session are submitted in order.
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
