package streams_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// fakeBroker is a broker in memory. Publish can be made to fail and to block.
// It delivers messages to the subscriptions of their topic and of "#".
type fakeBroker struct {
	mu                sync.Mutex // guards the fields below; not held while calling out
	subs              []*subscription
	subscriptionsMade int // ever, including those that have ended
	published         []messaging.Message
	attempts          int // calls of Publish
	onPublish         func(ctx context.Context, list []messaging.Message) (done, refused int, err error)
	reachedErr        error
}

type subscription struct {
	filter string
	in     messaging.Tap
}

func (d *fakeBroker) Subscribe(filter string, in messaging.Tap) (cancel func()) {
	s := &subscription{filter, in}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subs = append(d.subs, s)
	d.subscriptionsMade++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subs = slices.DeleteFunc(d.subs, func(o *subscription) bool { return o == s })
	}
}

func (d *fakeBroker) Publish(ctx context.Context, list []messaging.Message) (done, refused int, err error) {
	d.mu.Lock()
	answer := d.onPublish
	d.attempts++
	d.mu.Unlock()
	done = len(list)
	if answer != nil {
		done, refused, err = answer(ctx, list)
	}
	d.mu.Lock()
	d.published = append(d.published, list[refused:done]...)
	d.mu.Unlock()
	for _, m := range list[refused:done] {
		d.deliver(m, nil)
	}
	return done, refused, err
}

func (*fakeBroker) WaitForCapacity(context.Context, string) {}

func (*fakeBroker) Retained(context.Context, string) iter.Seq2[messaging.Message, error] {
	return func(func(messaging.Message, error) bool) {}
}

// Refused refuses "forbidden/#".
func (*fakeBroker) Refused(filter string) bool { return filter == "forbidden/#" }

func (d *fakeBroker) Reached() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reachedErr
}

// setOnPublish sets the result of Publish, nil for success.
func (d *fakeBroker) setOnPublish(f func(ctx context.Context, list []messaging.Message) (done, refused int, err error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onPublish = f
}

// errUnreachable is the error of a broker that cannot be reached.
var errUnreachable = &broker.Error{Kind: broker.Unavailable, Msg: "the broker is not connected"}

// unreachable is an onPublish that takes nothing.
func unreachable(context.Context, []messaging.Message) (done, refused int, err error) {
	return 0, 0, errUnreachable
}

// deliver delivers a message to the subscriptions of its topic.
func (d *fakeBroker) deliver(m messaging.Message, notifier messaging.CommitNotifier) {
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.mu.Unlock()
	for _, s := range subs {
		if s.filter == m.Topic || s.filter == "#" {
			s.in.Take(m, notifier)
		}
	}
}

// deliverTracked delivers a message to the subscriptions of its topic, each
// with a notifier from given.
func (d *fakeBroker) deliverTracked(m messaging.Message, given *notifiers) {
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.mu.Unlock()
	for _, s := range subs {
		if s.filter == m.Topic || s.filter == "#" {
			s.in.Take(m, given.next())
		}
	}
}

// deliverAll delivers payloads to "in", in order.
func (d *fakeBroker) deliverAll(qos byte, payloads ...string) {
	for i, p := range payloads {
		d.deliver(messaging.Message{Topic: "in", Payload: []byte(p), QoS: qos, At: origin + int64(i)}, nil)
	}
}

// filters returns the filters of the subscriptions, sorted.
func (d *fakeBroker) filters() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, s := range d.subs {
		all = append(all, s.filter)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (d *fakeBroker) clearPublished() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.published = nil
}

// publishedTo returns the messages that were published to a topic, in order.
func (d *fakeBroker) publishedTo(topic string) (all []messaging.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.published {
		if m.Topic == topic {
			all = append(all, m)
		}
	}
	return all
}

func (d *fakeBroker) payloads(topic string) (all []string) {
	for _, m := range d.publishedTo(topic) {
		all = append(all, string(m.Payload))
	}
	return all
}

// subscriptions returns how many subscriptions were ever made.
func (d *fakeBroker) subscriptions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.subscriptionsMade
}

// publishAttempts returns the number of calls of Publish.
func (d *fakeBroker) publishAttempts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts
}

// awaitPayloads waits until n messages were published to a topic, and returns
// their payloads.
func (d *fakeBroker) awaitPayloads(tb testing.TB, topic string, n int) []string {
	tb.Helper()
	var got []string
	await(tb, func() error {
		if got = d.payloads(topic); len(got) < n {
			return fmt.Errorf("%d of %d messages were published to %s", len(got), n, topic)
		}
		return nil
	})
	return got
}

// blockPublish makes Publish block. It returns a channel that is closed when
// the first call has begun, and a function that unblocks it.
func (d *fakeBroker) blockPublish() (entered chan struct{}, unblock func()) {
	entered, left := make(chan struct{}), make(chan struct{})
	first := true
	d.setOnPublish(func(ctx context.Context, list []messaging.Message) (int, int, error) {
		if first {
			first = false
			close(entered)
		}
		select {
		case <-left:
			return len(list), 0, nil
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		}
	})
	return entered, func() { close(left) }
}
