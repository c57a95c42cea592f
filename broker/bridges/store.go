package bridges

import (
	"context"
	"encoding/json"
	"time"

	"signalbox/broker"
)

// Store stores configurations and queues of the bridges of any number of brokers. All methods are
// safe for concurrent use.
type Store interface {
	// Configs returns the documents of a broker's bridges by bridge id, with secrets in plain
	// text.
	Configs(ctx context.Context, brokerID string) (map[string]json.RawMessage, error)
	// PutConfig stores a document, sealed, and the set of its connections: the queues of
	// connections that are not listed are deleted with their contents. It is durable when it
	// returns. A nil document deletes everything.
	PutConfig(ctx context.Context, brokerID, bridgeID string, document json.RawMessage, connections []string) error
	// Forget deletes everything of a broker.
	Forget(ctx context.Context, brokerID string) error
	// Queue returns the queue of a connection that PutConfig has created. A queue can be open
	// only once at a time.
	Queue(ctx context.Context, brokerID, bridgeID, connection string, b Bounds) (Queue, error)
	// Identity returns a random name that is created once and kept.
	Identity() string
	// Err returns why nothing can be stored at present, nil if it can.
	Err() error
}

// Bounds are the bounds of a queue.
type Bounds struct {
	Messages    int64
	Bytes       int64 // measured by Message.Size
	DropOldest  bool  // if full, drop the oldest instead of the newest
	DeadLetters int64 // the oldest are deleted; 0 stores none
}

// Queue stores the messages of a connection until they are delivered. All methods are safe for
// concurrent use.
type Queue interface {
	// Put adds an entry; the queue assigns ID and MessageID. It never waits. If settle is not
	// nil, it is called once in a goroutine of the store: without an error when the entry is
	// durable, was removed, or was dropped because the queue is full, with one if it could not
	// be stored.
	Put(e Entry, settle func(error))
	// Peek returns entries that are not removed, in order, with IDs greater than after: at most
	// that many messages, and no more than that many bytes beyond the first. It returns none if
	// there are none. Entries up to QoS 1 may be returned before they are durable.
	Peek(ctx context.Context, after uint64, messages int, bytes int) ([]*Entry, error)
	// Ready returns a channel, buffered by one, that receives when Peek may have new entries.
	Ready() <-chan struct{}
	// Remove removes entries. It does not wait; a removal that is not durable when the process
	// ends is lost.
	Remove(ids []uint64)
	// Reject makes dead letters from entries, durably when it returns.
	Reject(ctx context.Context, list []Rejection) error
	// SetBounds changes the bounds, starting with the next Put.
	SetBounds(b Bounds)
	// Usage returns what is stored, and what was dropped because of bounds.
	Usage() Usage
	// DeadLetters returns a page of the dead letters, oldest first, and their number.
	DeadLetters(ctx context.Context, offset, count int) (total int, list []broker.DeadLetter, err error)
	// RetryDeadLetters puts dead letters into the queue, all if ids is empty.
	RetryDeadLetters(ctx context.Context, ids []string) (int, error)
	// DeleteDeadLetters deletes dead letters, all if ids is empty.
	DeleteDeadLetters(ctx context.Context, ids []string) (int, error)
	// Close closes the queue. Entries that were put are stored; later ones are refused.
	Close(ctx context.Context) error
}

// Rejection is an entry that a target rejects.
type Rejection struct {
	ID       uint64
	Reason   string
	Response string // the beginning of the target's response
	Attempts int
	At       time.Time
}

// Usage is what a queue stores, and what was dropped since the process started.
type Usage struct {
	Messages, Bytes, DeadLetters int64
	Dropped                      int64
	LostDeadLetters              int64 // the oldest, because of the bound
}
