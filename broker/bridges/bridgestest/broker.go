// Package bridgestest has what tests of bridges need: a broker and a store in memory, a kind with
// scripted targets, a rig with a bridge of any kind, and a driver that uses one connector as the
// engine does.
//
// The package must not import any kind of bridge.
package bridgestest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"signalbox/broker/messaging"
)

// Broker is a broker in memory. All methods are safe for concurrent use.
type Broker struct {
	mu            sync.Mutex // guards the fields below; not held during callbacks
	subs          []*subscription
	subscriptions int
	published     []messaging.Message
	retained      map[string]messaging.Message
	refused       string
	waiting       int
	outcomes      []error
	subscribed    func(filter string)
}

type subscription struct {
	filter string
	in     messaging.Tap
}

var _ messaging.Broker = (*Broker)(nil)

// Subscribe subscribes a tap.
func (b *Broker) Subscribe(filter string, in messaging.Tap) (cancel func()) {
	s := &subscription{filter, in}
	b.mu.Lock()
	b.subs = append(slices.Clone(b.subs), s)
	b.subscriptions++
	then := b.subscribed
	b.mu.Unlock()
	if then != nil {
		then(filter)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.subs = slices.DeleteFunc(slices.Clone(b.subs), func(o *subscription) bool { return o == s })
	}
}

// Publish publishes messages to all subscribers.
func (b *Broker) Publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	for _, m := range messages {
		if err := ctx.Err(); err != nil {
			return done, refused, err
		}
		b.mu.Lock()
		b.published = append(b.published, m)
		if m.Retain {
			b.retain(m)
		}
		b.mu.Unlock()
		b.send(m, false)
		done++
	}
	return done, refused, nil
}

// Subscribing sets a callback for new subscriptions.
func (b *Broker) Subscribing(then func(filter string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribed = then
}

// ClientPublish publishes a message as a client does: above QoS 0 it expects an acknowledgement.
func (b *Broker) ClientPublish(m messaging.Message) {
	if m.At == 0 {
		m.At = time.Now().UnixMilli()
	}
	if m.Retain {
		b.mu.Lock()
		b.retain(m)
		b.mu.Unlock()
	}
	b.send(m, true)
}

// ClientPublishNotify is ClientPublish for a message to one tap, whose outcome is sent to done.
func (b *Broker) ClientPublishNotify(m messaging.Message, done chan<- error) {
	m.At = time.Now().UnixMilli()
	b.mu.Lock()
	subs := b.subs
	b.mu.Unlock()
	for _, s := range subs {
		if matches(s.filter, m.Topic) {
			s.in.Take(m, outcomeChan(done))
		}
	}
}

// outcomeChan sends the outcome of a message to a channel.
type outcomeChan chan<- error

// Committed sends the outcome.
func (n outcomeChan) Committed(err error) { n <- err }

// Text publishes a text at QoS 1.
func (b *Broker) Text(topic, payload string) {
	b.ClientPublish(messaging.Message{Topic: topic, Payload: []byte(payload), QoS: 1})
}

func (b *Broker) retain(m messaging.Message) {
	if b.retained == nil {
		b.retained = map[string]messaging.Message{}
	}
	if len(m.Payload) == 0 {
		delete(b.retained, m.Topic)
		return
	}
	b.retained[m.Topic] = m
}

// send sends a message to all subscribers.
func (b *Broker) send(m messaging.Message, settles bool) {
	b.mu.Lock()
	subs := b.subs
	b.mu.Unlock()
	for _, s := range subs {
		if !matches(s.filter, m.Topic) {
			continue
		}
		if !settles || m.QoS == 0 || !s.in.Keeps() {
			s.in.Take(m, nil)
			continue
		}
		b.mu.Lock()
		b.waiting++
		b.mu.Unlock()
		s.in.Take(m, &receipt{broker: b})
	}
}

// receipt expects exactly one outcome.
type receipt struct {
	broker *Broker
	once   bool
}

// Committed records the outcome.
func (r *receipt) Committed(err error) {
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	if r.once {
		panic("bridgestest: a message is settled twice")
	}
	r.once = true
	r.broker.waiting--
	r.broker.outcomes = append(r.broker.outcomes, err)
}

// Outcomes returns how many messages have no outcome yet, and the outcomes of the others.
func (b *Broker) Outcomes() (waiting int, settled []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting, slices.Clone(b.outcomes)
}

// Published returns the messages of Publish, in order.
func (b *Broker) Published() []messaging.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.published)
}

// Subscribed returns the current filters, sorted, and the number of subscriptions ever made.
func (b *Broker) Subscribed() (filters []string, made int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.subs {
		filters = append(filters, s.filter)
	}
	slices.Sort(filters)
	return filters, b.subscriptions
}

// Retained returns retained messages.
func (b *Broker) Retained(_ context.Context, filter string) iter.Seq2[messaging.Message, error] {
	b.mu.Lock()
	all := maps.Clone(b.retained)
	b.mu.Unlock()
	return func(yield func(messaging.Message, error) bool) {
		for _, topic := range slices.Sorted(maps.Keys(all)) {
			if matches(filter, topic) && !yield(all[topic], nil) {
				return
			}
		}
	}
}

// WaitForCapacity does not wait.
func (*Broker) WaitForCapacity(context.Context, string) {}

// Refuse makes the broker refuse a filter.
func (b *Broker) Refuse(filter string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = filter
}

// Refused reports whether a filter is refused.
func (b *Broker) Refused(filter string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return filter == b.refused
}

// Reached returns nil.
func (*Broker) Reached() error { return nil }

// matches reports whether a filter matches a topic.
func matches(filter, topic string) bool {
	if strings.HasPrefix(topic, "$") != strings.HasPrefix(filter, "$") {
		return false
	}
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	for i, level := range f {
		if level == "#" {
			return true
		}
		if i >= len(t) || level != "+" && level != t[i] {
			return false
		}
	}
	return len(f) == len(t) || len(f) == len(t)+1 && f[len(t)] == "#"
}
