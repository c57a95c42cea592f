package engine

import "context"

// Store stores what must outlive the process: sessions with their queues, and retained
// messages. The engine loads it when it is resumed, and submits every change from then
// on. Otherwise it reads only the messages of queues from it.
//
// Changes are committed in the order of submission, many in one transaction. Done of
// every Changes is called, in that order.
type Store interface {
	// Load returns everything that is stored. It is called again after the engine was
	// suspended; the store may have another server's state then.
	Load(ctx context.Context) (*Snapshot, error)
	// Messages returns stored messages by their IDs, which must ascend. IDs that are not
	// stored are left out. It does not wait for a transaction that is being committed.
	Messages(ctx context.Context, ids []uint64) ([]*Message, error)
	// WaitForCapacity waits while too much is submitted and not yet committed.
	WaitForCapacity()
	// Full reports whether WaitForCapacity would wait.
	Full() bool
	// Submit submits changes that are made atomically. It never waits and calls no
	// CommitNotifier, so it may be called with a lock held. The store owns the Changes
	// until it calls Done.Committed.
	Submit(c *Changes)
	// Err returns why nothing can be stored at present, or nil. While it is not nil,
	// changes that are not Owed fail with it; if it is ErrUncertain, all do.
	Err() error
	// Close commits what was submitted and closes the store.
	Close(ctx context.Context) error
}

// CommitNotifier is notified of the outcome of changes. It is called on one goroutine of
// the store, without a lock. It must not block, and of the store it may call only Submit.
type CommitNotifier interface {
	Committed(c *Changes, err error)
}

// Changes are made atomically. The slices are applied in the order of the fields: a row
// is put before rows that refer to it, and deleted after them. The store deletes a message
// when no queue and no retained topic refers to it.
type Changes struct {
	// Owed changes describe what has happened already (an acknowledgement, the end of a
	// session). They cannot be refused: if they cannot be stored now, the store keeps
	// them, in order, and tries again until they are.
	Owed bool
	Done CommitNotifier // nil where no caller waits
	Tag  any            // for Done

	PutSessions   []SessionRecord      // inserted or replaced
	Subscribed    []SubscriptionRecord // inserted or replaced
	Unsubscribed  []SubscriptionRecord // by SessionID and Filter
	Messages      []*Message           // with a new ID each
	Enqueued      []QueueRecord
	Released      []QueueRecord    // PUBREC was received; by SessionID and Seq
	Received      []IncomingRecord // QoS 2, until PUBREL
	Retained      []RetainedRecord
	Dequeued      []QueueRecord // by SessionID and Seq
	Forgotten     []IncomingRecord
	EndedSessions []uint64 // with their subscriptions and queues
}

// Committed reports the outcome of the changes to Done.
func (c *Changes) Committed(err error) {
	if c.Done != nil {
		c.Done.Committed(c, err)
	}
}

// SessionRecord is a stored session, or one that is stored only for its Will.
type SessionRecord struct {
	ID             uint64
	ClientID       string
	Username       string
	Anonymous      bool   // opened without a username
	Version        byte   // of MQTT: 3, 4 or 5
	Clean          bool   // Clean Session or Clean Start of the last CONNECT
	KeepAlive      uint16 // seconds, of the last connection
	ExpiryInterval uint32 // seconds; 4294967295 never
	CreatedAt      int64  // epoch milliseconds, as all times here
	ConnectedAt    int64
	DisconnectedAt int64 // 0 while connected
	Address        string
	Will           *WillRecord // nil for none
	WillDueAt      int64       // 0 while connected
	SentSeq        uint64      // messages up to here were sent at least once, as of DisconnectedAt
}

// WillRecord is the Will of a CONNECT.
type WillRecord struct {
	Topic      string `json:"topic"`
	Payload    []byte `json:"payload"`
	Properties []byte `json:"properties"` // those passed on, as encoded in MQTT 5, without their length
	QoS        byte   `json:"qos"`
	Retain     bool   `json:"retain"`
	Delay      uint32 `json:"delay"`  // seconds
	Expiry     uint32 `json:"expiry"` // seconds; valid if HasExpiry
	HasExpiry  bool   `json:"hasExpiry"`
}

// SubscriptionRecord is a stored subscription.
type SubscriptionRecord struct {
	SessionID uint64
	Filter    string // begins with $share/name/ if shared
	Options   byte   // as in SUBSCRIBE [MQTT-3.8.3.1]
	ID        uint32 // subscription identifier, 0 for none
}

// QueueRecord is a queued or in-flight message of a session. The sequence numbers of a
// session only grow; they may have gaps.
type QueueRecord struct {
	SessionID       uint64
	Seq             uint64
	Message         *Message // nil in a Snapshot, which has the Stub
	Stub            Stub     // of a Message that is nil
	QoS             byte     // of the delivery: 1 or 2
	Retain          bool     // the RETAIN flag of the delivery
	Released        bool     // PUBREC was received: only PUBREL and PUBCOMP are left
	SubscriptionIDs []uint32 // of the matching subscriptions
	Share           string   // the shared subscription that matched, "" for none
}

// Stub is what is in memory of a message that is in the store only.
type Stub struct {
	ID        uint64
	ExpiresAt int64  // as the message's
	Size      int32  // of topic, payload and properties, in bytes
	Stamp     uint64 // as the message's; 0 in a Snapshot
	Serial    uint64 // as Engine.Serial returns it; 0 in a Snapshot
}

// stub returns the Stub of the record's message.
func (r *QueueRecord) stub() Stub {
	if m := r.Message; m != nil {
		return Stub{m.ID, m.ExpiresAt, int32(m.size()), m.Stamp, m.serial.Load()}
	}
	return r.Stub
}

// IncomingRecord is the packet identifier of a QoS 2 message that a client has sent and
// not released.
type IncomingRecord struct {
	SessionID uint64
	PacketID  uint16
}

// RetainedRecord sets or, with a nil Message, clears the retained message of a topic.
type RetainedRecord struct {
	Topic   string
	Message *Message
}

// Snapshot is everything that is stored, with stubs for the messages of queues: these are
// read with Messages when they are needed.
type Snapshot struct {
	Sessions      []StoredSession
	Retained      []*Message
	LastMessageID uint64 // IDs up to here are used
	LastSessionID uint64
}

// StoredSession is a session with its subscriptions and queue. Queue is in order of
// sequence numbers.
type StoredSession struct {
	SessionRecord
	Subscriptions []SubscriptionRecord
	Queue         []QueueRecord
	Incoming      []uint16
}
