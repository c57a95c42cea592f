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

// desk is a broker in memory, whose publishing can be had to fail and to wait.
// What is published reaches those subscribed to that topic, or to "#".
type desk struct {
	mu        sync.Mutex // guards what follows; not held while calling out
	subs      []*subscription
	made      int // subscriptions ever made
	published []messaging.Message
	attempts  int // to publish
	answer    func(ctx context.Context, list []messaging.Message) (done, refused int, err error)
	away      error
}

type subscription struct {
	filter string
	in     messaging.Tap
}

func (d *desk) Subscribe(filter string, in messaging.Tap) (cancel func()) {
	s := &subscription{filter, in}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subs = append(d.subs, s)
	d.made++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.subs = slices.DeleteFunc(d.subs, func(o *subscription) bool { return o == s })
	}
}

func (d *desk) Publish(ctx context.Context, list []messaging.Message) (done, refused int, err error) {
	d.mu.Lock()
	answer := d.answer
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
		d.send(m, nil)
	}
	return done, refused, err
}

func (*desk) WaitForCapacity(context.Context, string) {}

func (*desk) Retained(context.Context, string) iter.Seq2[messaging.Message, error] {
	return func(func(messaging.Message, error) bool) {}
}

// Refused refuses what is forbidden.
func (*desk) Refused(filter string) bool { return filter == "forbidden/#" }

func (d *desk) Reached() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.away
}

// answers sets what becomes of what is published, nil for success.
func (d *desk) answers(f func(ctx context.Context, list []messaging.Message) (done, refused int, err error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = f
}

// errAway is a broker that cannot be reached.
var errAway = &broker.Error{Kind: broker.Unavailable, Msg: "the broker is not connected"}

// unreachable takes nothing.
func unreachable(context.Context, []messaging.Message) (done, refused int, err error) {
	return 0, 0, errAway
}

// send gives a message to whoever subscribes to its topic.
func (d *desk) send(m messaging.Message, notifier messaging.CommitNotifier) {
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.mu.Unlock()
	for _, s := range subs {
		if s.filter == m.Topic || s.filter == "#" {
			s.in.Take(m, notifier)
		}
	}
}

// give gives a message to whoever subscribes to its topic, each of whom is to
// settle it.
func (d *desk) give(m messaging.Message, given *notifiers) {
	d.mu.Lock()
	subs := slices.Clone(d.subs)
	d.mu.Unlock()
	for _, s := range subs {
		if s.filter == m.Topic || s.filter == "#" {
			s.in.Take(m, given.next())
		}
	}
}

// say sends payloads to "in", in order.
func (d *desk) say(qos byte, payloads ...string) {
	for i, p := range payloads {
		d.send(messaging.Message{Topic: "in", Payload: []byte(p), QoS: qos, At: origin + int64(i)}, nil)
	}
}

// subscribed gives the filters that are subscribed to, in order.
func (d *desk) subscribed() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, s := range d.subs {
		all = append(all, s.filter)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (d *desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.published = nil
}

// messages gives what was published to a topic, in order.
func (d *desk) messages(topic string) (all []messaging.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.published {
		if m.Topic == topic {
			all = append(all, m)
		}
	}
	return all
}

func (d *desk) payloads(topic string) (all []string) {
	for _, m := range d.messages(topic) {
		all = append(all, string(m.Payload))
	}
	return all
}

// subscriptions tells how many subscriptions were ever made.
func (d *desk) subscriptions() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// tries tells how often somebody has tried to publish.
func (d *desk) tries() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts
}

// comes waits until so many messages were published to a topic, and gives their
// payloads.
func (d *desk) comes(tb testing.TB, topic string, n int) []string {
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

// blocks has publishing wait. It gives what is closed when the first message is
// being published, and a function that lets go.
func (d *desk) blocks() (entered chan struct{}, leave func()) {
	entered, left := make(chan struct{}), make(chan struct{})
	first := true
	d.answers(func(ctx context.Context, list []messaging.Message) (int, int, error) {
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
