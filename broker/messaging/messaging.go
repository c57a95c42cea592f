// Package messaging is the interface between a broker and what works with the messages
// of one inside this service: streams and bridges. [Broker] is implemented by the
// embedded broker and by the client of a remote one. [Host] and [Lifecycle] are what the
// engines of streams and of bridges have in common.
//
// Of this module it imports broker and broker/mqtt/packet only.
package messaging

import (
	"context"
	"iter"
)

// Message is an application message as it is taken from a broker and published
// to one. Its bytes are shared and must not be changed.
type Message struct {
	Topic      string
	Payload    []byte
	Properties []byte // those passed on, as encoded in MQTT 5, without their length and without an expiry
	QoS        byte
	Retain     bool   // as published, if the broker reports it
	At         int64  // when it arrived, epoch milliseconds by the service's own clock, which changes of the system time do not affect
	ExpiresAt  int64  // by the same clock, 0 for never
	Serial     uint64 // unique among the messages of this broker while the process runs; 0 for none
	ClientID   string // of the publisher; "" if the broker does not report it, or published itself
}

// Size returns the bytes that a message counts against limits.
func (m *Message) Size() int { return len(m.Topic) + len(m.Payload) + len(m.Properties) + Overhead }

// Overhead is what a message occupies besides its bytes.
const Overhead = 64

// CommitNotifier is notified when a message is durable: its source must not be acknowledged
// before.
type CommitNotifier interface {
	// Committed is called once, from any goroutine. It must not block. The error is why
	// the message was not stored.
	Committed(err error)
}

// WithdrawableNotifier is a CommitNotifier of a message that another node of a cluster may receive instead of this one.
type WithdrawableNotifier interface {
	CommitNotifier
	// Withdrawn reports whether another node receives the message: this one must not publish it any more. Its outcome here
	// counts for nothing.
	Withdrawn() bool
}

// Withdrawn reports whether the message of a notifier, which may be nil, is withdrawn; see [WithdrawableNotifier].
func Withdrawn(n CommitNotifier) bool {
	w, ok := n.(WithdrawableNotifier)
	return ok && w.Withdrawn()
}

// Tap takes the messages of a subscription.
type Tap interface {
	// Keeps reports whether messages above QoS 0 must be durable before their source
	// is acknowledged; it may change at any time.
	Keeps() bool
	// Take takes a message and never blocks. If notifier is not nil, it is called once
	// the message is durable, or lost.
	Take(m Message, notifier CommitNotifier)
}

// Broker is a broker as streams and bridges use it. All methods are safe for concurrent
// use.
type Broker interface {
	// Subscribe passes a tap every message that is published from now on to a topic that
	// the filter matches, in the order of each publisher, each once, without those that
	// were retained before. It returns at once; a remote broker is subscribed when there is
	// a connection, and again on the next one. After cancel has returned, messages that
	// were published before may still come, but none that is published afterwards.
	Subscribe(filter string, t Tap) (cancel func())
	// Publish publishes messages in order, with their RETAIN flags, and returns when the
	// broker has them: how many are finished, from the first on, and how many of these the
	// broker refused. The error is why the others are not finished: the context's, or a
	// [*broker.Error], of kind Unavailable if trying again later may help. It may wait until
	// the broker has capacity. The slice is the caller's again afterwards.
	Publish(ctx context.Context, messages []Message) (done, refused int, err error)
	// Retained returns the retained messages on topics that a filter matches, in no order.
	// It may leave out what is published meanwhile. An error, which is a [*broker.Error] or
	// the context's, is the last element.
	Retained(ctx context.Context, filter string) iter.Seq2[Message, error]
	// WaitForCapacity waits while connected subscribers of a topic have long queues that become
	// shorter, so that a replay does not lose messages at their queues that it could have
	// sent more slowly. It returns at once if the broker does not report queues, and when
	// the context ends.
	WaitForCapacity(ctx context.Context, topic string)
	// Refused reports whether the broker denies the subscription to the filter of a tap.
	Refused(filter string) bool
	// Reached returns nil if the broker can be published to now, otherwise a
	// [*broker.Error].
	Reached() error
}

// ServingBroker is a Broker whose messages only one node of a cluster takes at a time.
type ServingBroker interface {
	Broker
	// Serving waits until this node takes them: until an embedded broker serves clients, or
	// this service is the one that takes the messages of a remote broker. The context that it
	// returns ends when another node is to. The error is the context's, or that the broker
	// is being closed.
	Serving(ctx context.Context) (serving context.Context, err error)
}

// StoringBroker is a Broker in this process: it reports when messages are stored.
type StoringBroker interface {
	ServingBroker
	// PublishStored publishes messages in order and waits until each is stored for
	// all its subscribers. It sets in errs, which is as long as messages, why the broker
	// did not take one. The error is the context's; the outcome of the messages is not
	// known then.
	PublishStored(ctx context.Context, messages []Message, errs []error) error
}
