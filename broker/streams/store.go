package streams

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Definition is a stream as stored. ID is its number in the store, which is
// never reused; Rev is its revision in a messaging.Registry, 0 without one. UID
// distinguishes it from others that had its name, on all nodes that have it; those that a
// former release created have 0.
// Replaying, Replay and Stats of the record are not stored, nor is Rev in the store.
type Definition struct {
	ID  int64
	Rev int64
	UID int64
	broker.Stream
}

// Store stores the definitions and messages of the streams of any number of
// brokers. All methods are safe for concurrent use.
type Store interface {
	// Definitions returns the streams of a broker, sorted by name.
	Definitions(ctx context.Context, brokerID string) ([]Definition, error)
	// Put stores a definition, a new one if ID is 0, and returns its ID. It is
	// durable when Put returns.
	Put(ctx context.Context, brokerID string, d Definition) (id int64, err error)
	// Delete deletes a definition with its messages.
	Delete(ctx context.Context, id int64) error
	// Forget deletes all streams of a broker with their messages.
	Forget(ctx context.Context, brokerID string) error
	// Open opens the log of a stream. It can be open only once at a time.
	Open(ctx context.Context, id int64) (Log, error)
	// Err returns why nothing can be stored at present, or nil.
	Err() error
}

// Log is the stored log of one stream: messages in order of arrival, whose
// times never decrease, and the state of its query.
type Log interface {
	// Append submits messages to be stored after all that were submitted
	// before, with the state of the query after them (nil leaves it unchanged).
	// It does not wait for the disk: committed is called once, from the store's
	// goroutine, when all of them are durable or none is. Append blocks while
	// too much is submitted and not stored; the context ends that. The slice is
	// the caller's again when it returns; the bytes of the messages are not.
	// There may be a state without messages.
	Append(ctx context.Context, messages []messaging.Message, state []byte, committed func(error)) error
	// State returns the last stored state of the query, nil for none.
	State(ctx context.Context) ([]byte, error)
	// Usage returns the size of the log, and the messages that were evicted or
	// expired.
	Usage() Usage
	// Count returns the number of messages in a range.
	Count(ctx context.Context, r Range) (int64, error)
	// Timeline counts the messages of a range in slices of equal length, from the
	// first message to the last. Its cost is bounded.
	Timeline(ctx context.Context, r Range, slices int) (Timeline, error)
	// Read reads the messages of a range that are stored now, forward or
	// backward, and calls yield for each until it returns false. No transaction
	// is open while yield runs; messages that are deleted meanwhile may be left
	// out.
	Read(ctx context.Context, r Range, reverse bool, yield func(messaging.Message) bool) error
	// Clear deletes the messages of a range, including those that were
	// submitted before and are not stored yet. It is durable when Clear
	// returns.
	Clear(ctx context.Context, r Range) error
	// SetTTL sets for how many seconds messages are kept at least, 0 for ever.
	// They are deleted within twice that time.
	SetTTL(seconds int64)
	// Close stores what was submitted and closes the log.
	Close(ctx context.Context) error
}

// Range selects messages by their arrival, in epoch milliseconds of the time of
// day as it is set now. Both ends are inclusive.
type Range struct{ From, To int64 }

// Timeline is when the first and the last message of a range arrived, the length
// of a slice, and how many messages are in each; all zero without messages. Counts
// is nil if the messages are in too many places to be counted.
type Timeline struct {
	First, Last, Step int64
	Counts            []int64
}

// Usage is the size of a log, and the number of messages deleted since it was
// opened: Evicted to keep within a limit, Expired by their age.
type Usage struct{ Messages, Bytes, Evicted, Expired int64 }
