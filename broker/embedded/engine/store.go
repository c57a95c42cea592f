package engine

import "context"

// Store keeps what must outlive the process: messages, sessions with what waits
// for them, and retained messages. It is asked whenever the engine is resumed, and
// told of every change from then on; the engine itself reads from memory
// only, but for the messages of queues.
//
// What was submitted is committed in the order of submission, many changes to
// one transaction. Every Changes comes back through its Done, in that order.
type Store interface {
	// Load reads everything. It is called again when the engine was suspended
	// meanwhile, and knows nothing of what was submitted.
	Load(ctx context.Context) (*Snapshot, error)
	// Messages reads stored messages by their IDs, which ascend. Those that are not
	// stored are left out. It does not wait for what is being committed.
	Messages(ctx context.Context, ids []uint64) ([]*Message, error)
	// WaitForCapacity waits while too much is submitted and not yet committed. Submit
	// itself never waits, so that it may be called with a lock held.
	WaitForCapacity()
	// Submit hands over changes to be made as one: all of them or none. The
	// Changes belong to the store until it calls Done.Committed.
	Submit(c *Changes)
	// Err returns why nothing can be stored at present, or nil. While it is not
	// nil, changes that are not Owed come back with it; where it is ErrUncertain all
	// do.
	Err() error
	// Close commits what was submitted and ends.
	Close(ctx context.Context) error
}

// CommitNotifier is notified of the outcome of changes. It is called from one goroutine of
// the store, so it must not block, and must not call the store but Submit.
type CommitNotifier interface {
	Committed(c *Changes, err error)
}

// Changes are made as one. Slices are applied in the order of the members below:
// what is put comes before what refers to it, what refers goes before what it
// refers to. A message is forgotten by the store when no queue and no retained
// topic refers to it any longer.
type Changes struct {
	// Owed changes describe what has happened already (an acknowledgement, the
	// end of a session). They cannot be refused: where they cannot be stored
	// now they are kept, in order, and tried again until they are.
	Owed bool
	Done CommitNotifier // nil where no caller waits
	Tag  any            // for Done

	PutSessions   []SessionRecord      // new ones, or as they are now
	Subscribed    []SubscriptionRecord // new ones, or as they are now
	Unsubscribed  []SubscriptionRecord // SessionID and Filter count
	Messages      []*Message           // with a new ID each
	Enqueued      []QueueRecord
	Released      []QueueRecord    // PUBREC came; SessionID and Seq count
	Received      []IncomingRecord // QoS 2, until its PUBREL
	Retained      []RetainedRecord
	Dequeued      []QueueRecord // SessionID and Seq count
	Forgotten     []IncomingRecord
	EndedSessions []uint64 // with all that belongs to them
}

// SessionRecord is a session that is kept, or a Will that is.
type SessionRecord struct {
	ID             uint64
	ClientID       string
	Username       string
	Anonymous      bool   // opened without a username
	Version        byte   // of MQTT: 3, 4 or 5
	Clean          bool   // Clean Session or Clean Start as last asked for
	KeepAlive      uint16 // seconds, as last in force
	ExpiryInterval uint32 // seconds; 4294967295 never
	CreatedAt      int64  // epoch milliseconds, as all times here
	ConnectedAt    int64
	DisconnectedAt int64 // 0 while connected
	Address        string
	Will           *WillRecord // nil for none
	WillDueAt      int64       // 0 while connected
	SentSeq        uint64      // as of DisconnectedAt, messages up to here have been sent at least once
}

// WillRecord is a Will as the client left it.
type WillRecord struct {
	Topic      string `json:"topic"`
	Payload    []byte `json:"payload"`
	Properties []byte `json:"properties"` // those passed on, as encoded in MQTT 5, without their length
	QoS        byte   `json:"qos"`
	Retain     bool   `json:"retain"`
	Delay      uint32 `json:"delay"`  // seconds
	Expiry     uint32 `json:"expiry"` // seconds, counted where HasExpiry
	HasExpiry  bool   `json:"hasExpiry"`
}

// SubscriptionRecord is a subscription of a session that is kept.
type SubscriptionRecord struct {
	SessionID uint64
	Filter    string // with $share/name/ where shared
	Options   byte   // as in SUBSCRIBE [MQTT-3.8.3.1]
	ID        uint32 // subscription identifier, 0 for none
}

// QueueRecord is a message that waits for a session, or is on its way.
// Sequence numbers of a session only grow; they need not be without gaps.
type QueueRecord struct {
	SessionID       uint64
	Seq             uint64
	Message         *Message // nil in a Snapshot, which has the Stub
	Stub            Stub     // of a Message that is nil
	QoS             byte     // at which it is delivered: 1 or 2
	Retain          bool     // the RETAIN flag it is delivered with
	Released        bool     // PUBREC came: only PUBREL and PUBCOMP are left
	SubscriptionIDs []uint32 // of the subscriptions it came by
	Share           string   // the shared subscription it came by, "" for none
}

// Stub is what is kept in memory of a message that is in the store.
type Stub struct {
	ID        uint64
	ExpiresAt int64  // as the message's
	Size      int32  // of topic, payload and properties, in bytes
	Stamp     uint64 // as the message's; 0 in a Snapshot
	Serial    uint64 // as Engine.Serial returns it; 0 in a Snapshot
}

// stub returns what is known of the record's message.
func (r *QueueRecord) stub() Stub {
	if m := r.Message; m != nil {
		return Stub{m.ID, m.ExpiresAt, int32(m.size()), m.Stamp, m.serial.Load()}
	}
	return r.Stub
}

// IncomingRecord is a QoS 2 message that a client has sent and not released.
type IncomingRecord struct {
	SessionID uint64
	PacketID  uint16
}

// RetainedRecord sets or, with a nil Message, clears the retained message of a
// topic. Of two for one topic, the later submitted counts.
type RetainedRecord struct {
	Topic   string
	Message *Message
}

// Snapshot is everything that was stored, but for the messages of queues: these
// are read with Messages when they are needed.
type Snapshot struct {
	Sessions      []StoredSession
	Retained      []*Message
	LastMessageID uint64 // IDs up to here were used
	LastSessionID uint64
}

// StoredSession is a session with all that belongs to it. Queue is ordered by
// sequence number.
type StoredSession struct {
	SessionRecord
	Subscriptions []SubscriptionRecord
	Queue         []QueueRecord
	Incoming      []uint16
}
