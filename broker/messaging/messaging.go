// Package messaging is the interface between a broker and what works with the messages
// of one inside this service: streams and bridges. [Broker] is implemented by the
// embedded broker and by the client of a remote one. [Host] and [Lifecycle] are what the
// engines of streams and of bridges have in common.
//
// Of this module it imports broker only.
package messaging

import (
	"context"
	"iter"
)

// Message is an application message as it is taken from a broker and published
// to one. Its bytes belong to nobody and are never changed.
type Message struct {
	Topic      string
	Payload    []byte
	Properties []byte // those passed on, as encoded in MQTT 5, without their length and without an expiry
	QoS        byte
	Retain     bool   // as published, where the broker tells it
	At         int64  // when it came, epoch milliseconds of the clock of this service, which nobody can set
	ExpiresAt  int64  // the same, 0 for never
	Serial     uint64 // no other message of this broker has it while the process runs; 0 where there is none
	ClientID   string // of the publisher; "" where the broker does not tell it, or published itself
}

// Size is what a message counts against bounds, in bytes.
func (m *Message) Size() int { return len(m.Topic) + len(m.Payload) + len(m.Properties) + Overhead }

// Overhead is what a message takes beside its bytes.
const Overhead = 64

// CommitNotifier is notified when a message is durable: its source must not be acknowledged
// before.
type CommitNotifier interface {
	// Committed is called once, from any goroutine. It must not wait. The error
	// says why the message was not kept.
	Committed(err error)
}

// Inlet takes the messages of a subscription.
type Inlet interface {
	// Keeps tells whether messages above QoS 0 are to be safe before their source
	// is acknowledged; it may change at any time.
	Keeps() bool
	// Take takes a message and never waits. Where notifier is not nil, it is
	// called once the message is safe, or lost.
	Take(m Message, notifier CommitNotifier)
}

// Broker is a broker as streams and bridges use it. All methods are safe for concurrent
// use.
type Broker interface {
	// Subscribe gives an inlet every message that is published from now on to a
	// topic that the filter matches, in the order of each publisher, each once,
	// without those that were retained before. It returns at once; where the
	// broker is remote it subscribes when there is a connection, and again on the
	// next one. After cancel has returned the inlet is not given what is published
	// afterwards; what was published before may still come.
	Subscribe(filter string, in Inlet) (cancel func())
	// Publish publishes messages in order, with RETAIN as they say, and returns
	// when the broker has them. It tells how many, from the first on, are done with, and
	// how many of these the broker refused. An error says why the others are not
	// done with: it is the context's, or an [*broker.Error], of kind Unavailable
	// where trying again later may help. It may wait for the broker to have room.
	// The slice is the caller's again afterwards.
	Publish(ctx context.Context, messages []Message) (done, refused int, err error)
	// Retained gives what the broker retains on topics that a filter matches, in no
	// order. What is published meanwhile may be left out. An error, which is an
	// [*broker.Error] or the context's, is the last.
	Retained(ctx context.Context, filter string) iter.Seq2[Message, error]
	// WaitForCapacity waits while those who are connected and subscribed to a topic have many
	// messages waiting and go on taking them, so that a replay does not lose at
	// their queues what it could have sent more slowly. Where the broker does not
	// tell, it returns at once. The context ends it.
	WaitForCapacity(ctx context.Context, topic string)
	// Refused tells whether the broker does not let a filter be subscribed to that
	// an inlet is open for.
	Refused(filter string) bool
	// Reached tells whether the broker can be published to now; nil means so.
	// The error is an [*broker.Error].
	Reached() error
}
