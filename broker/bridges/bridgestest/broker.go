// Package bridgestest is what bridges are tested with: a broker and a store in
// memory, a kind whose targets do as they are told, a rig that holds a bridge of
// any kind, and what does with one connector what the engine does.
//
// It must not import any kind of bridge.
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
	mu         sync.Mutex // guards what follows; not held while calling out
	subs       []*subscription
	made       int
	published  []messaging.Message
	retained   map[string]messaging.Message
	forbidden  string
	unsettled  int
	settled    []error
	subscribed func(filter string)
}

type subscription struct {
	filter string
	in     messaging.Tap
}

var _ messaging.Broker = (*Broker)(nil)

// Subscribe opens a tap.
func (b *Broker) Subscribe(filter string, in messaging.Tap) (cancel func()) {
	s := &subscription{filter, in}
	b.mu.Lock()
	b.subs = append(slices.Clone(b.subs), s)
	b.made++
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

// Publish publishes messages to whoever is subscribed.
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

// Subscribing sets what is called whenever a tap was opened.
func (b *Broker) Subscribing(then func(filter string)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subscribed = then
}

// Say publishes a message as a client does: what is above QoS 0 is to be settled.
func (b *Broker) Say(m messaging.Message) {
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

// SayWait is Say for a message that one tap takes, which done gets the end of.
func (b *Broker) SayWait(m messaging.Message, done chan<- error) {
	m.At = time.Now().UnixMilli()
	b.mu.Lock()
	subs := b.subs
	b.mu.Unlock()
	for _, s := range subs {
		if Matches(s.filter, m.Topic) {
			s.in.Take(m, notice(done))
		}
	}
}

// notice sends what a message is settled with.
type notice chan<- error

// Settled sends it.
func (n notice) Committed(err error) { n <- err }

// Text publishes a text at QoS 1.
func (b *Broker) Text(topic, payload string) {
	b.Say(messaging.Message{Topic: topic, Payload: []byte(payload), QoS: 1})
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

// send gives a message to whoever is subscribed.
func (b *Broker) send(m messaging.Message, settles bool) {
	b.mu.Lock()
	subs := b.subs
	b.mu.Unlock()
	for _, s := range subs {
		if !Matches(s.filter, m.Topic) {
			continue
		}
		if !settles || m.QoS == 0 || !s.in.Keeps() {
			s.in.Take(m, nil)
			continue
		}
		b.mu.Lock()
		b.unsettled++
		b.mu.Unlock()
		s.in.Take(m, &receipt{broker: b})
	}
}

// receipt must be settled once.
type receipt struct {
	broker *Broker
	once   bool
}

// Settled notes it.
func (r *receipt) Committed(err error) {
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	if r.once {
		panic("bridgestest: a message is settled twice")
	}
	r.once = true
	r.broker.unsettled--
	r.broker.settled = append(r.broker.settled, err)
}

// Settled tells how many messages wait to be settled, and with what the others
// were.
func (b *Broker) Settled() (waiting int, settled []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsettled, slices.Clone(b.settled)
}

// Published gives what was published by Publish, in order.
func (b *Broker) Published() []messaging.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.published)
}

// Subscribed gives the filters that are subscribed to, in order, and how many
// subscriptions were ever made.
func (b *Broker) Subscribed() (filters []string, made int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.subs {
		filters = append(filters, s.filter)
	}
	slices.Sort(filters)
	return filters, b.made
}

// Retained gives what is retained.
func (b *Broker) Retained(_ context.Context, filter string) iter.Seq2[messaging.Message, error] {
	b.mu.Lock()
	all := maps.Clone(b.retained)
	b.mu.Unlock()
	return func(yield func(messaging.Message, error) bool) {
		for _, topic := range slices.Sorted(maps.Keys(all)) {
			if Matches(filter, topic) && !yield(all[topic], nil) {
				return
			}
		}
	}
}

// WaitForCapacity does not wait.
func (*Broker) WaitForCapacity(context.Context, string) {}

// Forbid has the broker refuse a filter.
func (b *Broker) Forbid(filter string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forbidden = filter
}

// Refused tells whether a filter is the forbidden one.
func (b *Broker) Refused(filter string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return filter == b.forbidden
}

// Reached is always so.
func (*Broker) Reached() error { return nil }

// Matches tells whether a filter matches a topic.
func Matches(filter, topic string) bool {
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
