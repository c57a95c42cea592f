package bridges

import (
	"context"
	"encoding/json"
	"time"

	"signalbox/broker"
)

// Store keeps configurations and queues of the bridges of any number of brokers.
// All methods are safe for concurrent use.
type Store interface {
	// Configs gives the documents of a broker's bridges by bridge id, secrets open.
	Configs(ctx context.Context, brokerID string) (map[string]json.RawMessage, error)
	// PutConfig stores a document, whole and sealed, and with it which connections
	// there are: queues of those that are no longer named are deleted with what
	// they hold. When it returns it is durable. A nil document deletes all of it.
	PutConfig(ctx context.Context, brokerID, bridgeID string, document json.RawMessage, connections []string) error
	// Forget deletes everything of a broker.
	Forget(ctx context.Context, brokerID string) error
	// Queue gives the queue of a connection that PutConfig has named. Only one is
	// open of a connection at a time.
	Queue(ctx context.Context, brokerID, bridgeID, connection string, b Bounds) (Queue, error)
	// Identity is random, made once, and kept.
	Identity() string
	// Err says why nothing can be stored at present, nil if it can.
	Err() error
}

// Bounds say how much a queue holds.
type Bounds struct {
	Messages    int64
	Bytes       int64 // as Message.Size counts
	DropOldest  bool  // when it is full; otherwise the newest goes
	DeadLetters int64 // the oldest go; 0 keeps none
}

// Queue holds the messages of a connection until they are delivered. All methods
// are safe for concurrent use.
type Queue interface {
	// Put hands over an entry, of which ID and MessageID are given by the queue. It
	// never waits. Settle, where it is not nil, is called once from a goroutine of
	// the store: without an error when the entry is durable or was dropped because
	// the queue is full, with one when it could not be stored.
	Put(e Entry, settle func(error))
	// Peek gives entries that are durable and not removed, in order, from the first
	// one behind an ID on: at most so many, and no more than so many bytes beyond
	// the first. It gives none when there are none.
	Peek(ctx context.Context, after uint64, messages int, bytes int) ([]*Entry, error)
	// Ready gives a channel, buffered by one, that is sent to when Peek may have
	// something new.
	Ready() <-chan struct{}
	// Remove takes entries out. It does not wait; what is not durable when the
	// process ends comes again.
	Remove(ids []uint64)
	// Reject makes dead letters of entries, durably when it returns.
	Reject(ctx context.Context, list []Rejection) error
	// SetBounds changes what the queue holds, from the next Put on.
	SetBounds(b Bounds)
	// Usage tells what is held, and what went because it was full.
	Usage() Usage
	// DeadLetters gives a part of them, oldest first, and how many there are.
	DeadLetters(ctx context.Context, offset, count int) (total int, list []broker.DeadLetter, err error)
	// RetryDeadLetters puts dead letters behind the queue, all where ids is empty.
	RetryDeadLetters(ctx context.Context, ids []string) (int, error)
	// DeleteDeadLetters deletes dead letters, all where ids is empty.
	DeleteDeadLetters(ctx context.Context, ids []string) (int, error)
	// Close ends the use of the queue. What was handed over is stored; what is put
	// afterwards is refused.
	Close(ctx context.Context) error
}

// Rejection is an entry that a target does not take.
type Rejection struct {
	ID       uint64
	Reason   string
	Answer   string // the beginning of what the target answered
	Attempts int
	At       time.Time
}

// Usage is what a queue holds, and what of it went since the process began.
type Usage struct {
	Messages, Bytes, DeadLetters int64
	Dropped                      int64
	LostDeadLetters              int64 // the oldest, because there were too many
}
