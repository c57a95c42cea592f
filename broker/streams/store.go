package streams

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// Definition is a stream as it is stored. ID is its number in the store; no
// number is given twice. Of the record Replaying, Replay and Stats are not
// stored.
type Definition struct {
	ID int64
	broker.Stream
}

// Store keeps the definitions and messages of the streams of any number of
// brokers. All methods are safe for concurrent use.
type Store interface {
	// Definitions gives the streams of a broker, in order of their names.
	Definitions(ctx context.Context, brokerID string) ([]Definition, error)
	// Put stores a definition, a new one where ID is 0, and gives its ID. When it
	// returns it is durable.
	Put(ctx context.Context, brokerID string, d Definition) (id int64, err error)
	// Delete deletes a definition with its messages.
	Delete(ctx context.Context, id int64) error
	// Forget deletes all streams of a broker with their messages.
	Forget(ctx context.Context, brokerID string) error
	// Open gives what a stream keeps. Only one is open of a stream at a time.
	Open(ctx context.Context, id int64) (Log, error)
	// Err says why nothing can be stored at present, nil if it can.
	Err() error
}

// Log is what one stream keeps: messages in the order in which they came, whose
// times never decrease, and the state of its query.
type Log interface {
	// Append hands over messages to be kept behind all that were handed over
	// before, with the state of the query after them (nil leaves it). It does not
	// wait for the disk: settle is called once, from the store's goroutine, when
	// all of them are durable or none is. It waits while too much has been handed
	// over and not been stored, the context ends that. The slice is the caller's
	// again when it returns; the messages' bytes are not. There may be a state
	// without messages.
	Append(ctx context.Context, messages []messaging.Message, state []byte, settle func(error)) error
	// State gives the state of the query as stored last, nil for none.
	State(ctx context.Context) ([]byte, error)
	// Usage tells what is kept and what went.
	Usage() Usage
	// Count counts the messages in a range.
	Count(ctx context.Context, r Range) (int64, error)
	// Read reads the messages of a range that are kept now, forward or backward,
	// and calls yield with each until it answers false. No transaction stays open
	// while yield runs; what is deleted meanwhile may be left out.
	Read(ctx context.Context, r Range, reverse bool, yield func(messaging.Message) bool) error
	// Clear deletes the messages of a range, also those handed over before that
	// are not stored yet. It is durable when Clear returns.
	Clear(ctx context.Context, r Range) error
	// SetTTL sets for how many seconds messages are kept at least, 0 for ever.
	// They are gone by twice that.
	SetTTL(seconds int64)
	// Close ends the use of the log. What was handed over is stored.
	Close(ctx context.Context) error
}

// Range selects messages by when they came, in epoch milliseconds of the time of day as
// it is set now, both ends included.
type Range struct{ From, To int64 }

// Usage is what a log keeps, and what it let go of since it was opened: Evicted
// messages to keep within a bound, Expired ones by their age.
type Usage struct{ Messages, Bytes, Evicted, Expired int64 }
