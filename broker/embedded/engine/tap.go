package engine

import (
	"context"
	"time"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/topics"
)

// commitBarrier is a messaging.CommitNotifier that delays the store and the acknowledgement
// of a message.
type commitBarrier publication

// Committed releases the message or, with an error, refuses it as one that cannot be stored.
// It does not wait.
func (h *commitBarrier) Committed(err error) { (*publication)(h).releaseStore(err) }

// openTap is a tap with its filter.
type openTap struct {
	tap    messaging.Tap
	filter string
}

// Open passes a tap the messages that are published from now on to topics that the filter
// matches. Its methods are called on the goroutine of the publisher, in the order of each
// publisher, before the message is delivered; they must not block. After close has returned, messages that were published before may still be passed,
// but none that is published afterwards.
func (e *Engine) Open(filter string, tap messaging.Tap) (close func()) {
	t := &openTap{tap, filter}
	e.taps.Subscribe(filter, t, topics.Options{QoS: 2})
	e.openTapsMu.Lock()
	defer e.openTapsMu.Unlock()
	e.openTaps[t] = struct{}{}
	if to := e.interests.Load(); to != nil {
		to.joined(filter, tapInterest)
	}
	return func() { e.closeTap(t) }
}

// closeTap ends what Open began.
func (e *Engine) closeTap(t *openTap) {
	e.taps.Unsubscribe(t.filter, t)
	e.openTapsMu.Lock()
	defer e.openTapsMu.Unlock()
	_, open := e.openTaps[t]
	delete(e.openTaps, t)
	if to := e.interests.Load(); to != nil && open {
		to.left(t.filter, tapInterest)
	}
}

// tap passes a message to the taps of its topic. A tap that must commit it delays the store:
// if the packet identifier of QoS 2 were stored first, the message would be a duplicate when
// it is sent again after a crash, though the tap had not committed it.
func (e *Engine) tap(m *Message, r *route, pub *publication) {
	if len(r.taps.Subscribers) == 0 {
		return
	}
	shown := e.Tapped(m)
	for i := range r.taps.Subscribers {
		t := r.taps.Subscribers[i].Who.tap
		var notifier messaging.CommitNotifier
		if m.QoS > 0 && !pub.Owed && t.Keeps() { // an owed publication has no acknowledgement to delay
			pub.acquireStore()
			notifier = (*commitBarrier)(pub)
		}
		t.Take(shown, notifier)
	}
}

// Tapped returns a message as taps receive it, with times of their clock.
func (e *Engine) Tapped(m *Message) messaging.Message {
	return messaging.Message{
		Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: m.QoS, Retain: m.Retain,
		At: e.config.TapTime(m.CreatedAt), ExpiresAt: e.config.TapTime(m.ExpiresAt), Serial: e.Serial(m), ClientID: m.Publisher,
	}
}

// Publisher publishes many messages of the broker itself. It is used by one goroutine at a
// time.
type Publisher struct {
	engine  *Engine
	known   map[string]*route
	touched []*Conn
}

// NewPublisher returns a Publisher.
func (e *Engine) NewPublisher() *Publisher { return &Publisher{engine: e, known: map[string]*route{}} }

// Publish publishes a message without waiting for the store. It returns false if the message
// cannot be stored at present. The caller must call Flush before it waits.
func (p *Publisher) Publish(m *Message) bool { return p.publish(m, nil) }

// PublishWithResult is Publish with a channel that receives the outcome of storing the
// message. The channel is nil for QoS 0.
func (p *Publisher) PublishWithResult(m *Message) (stored <-chan error, ok bool) {
	done := make(chan error, 1)
	if m.QoS == 0 {
		done = nil
	}
	ok = p.publish(m, done)
	return done, ok
}

// publish publishes a message. done, where it is not nil, is buffered by one.
func (p *Publisher) publish(m *Message, done chan error) bool {
	e, r := p.engine, p.route(m.Topic)
	e.refresh(r, nil)
	pub := e.newPublication() // before canStore, so that its generation is the one that is checked
	pub.done = done
	if ok, _ := e.canStore(m, r); !ok {
		e.meters.drop(DropNotStored, 1)
		pub.recycle()
		return false
	}
	if !e.publish(m, r, nil, pub, &p.touched) && done != nil {
		done <- nil
	}
	return true
}

// Flush flushes the connections of the recipients, and waits while too much is to be stored
// or forwarded.
func (p *Publisher) Flush() {
	p.flushTouched()
	p.engine.store.WaitForCapacity()
	p.engine.awaitPeerCapacity()
}

func (p *Publisher) flushTouched() {
	for i, c := range p.touched {
		p.touched[i] = nil
		c.flush()
	}
	p.touched = p.touched[:0]
}

// How often WaitForCapacity checks the queues, and how long it waits without progress.
const (
	capacityPollInterval = 2 * time.Millisecond
	capacityTimeout      = 5 * time.Second
)

// WaitForCapacity waits while the queue of a connected subscriber of a topic is more than half
// full and the longest such queue becomes shorter. It does not wait for clients that are away.
func (p *Publisher) WaitForCapacity(ctx context.Context, topic string) {
	fullest, full := p.fullest(topic)
	if !full {
		return
	}
	tick := time.NewTicker(capacityPollInterval)
	defer tick.Stop()
	for since := time.Now(); full && time.Since(since) < capacityTimeout; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		before := fullest
		if fullest, full = p.fullest(topic); fullest < before {
			since = time.Now()
		}
	}
}

// fullest returns the length of the longest queue of a connected subscriber that is more than
// half full, and reports whether there is one.
func (p *Publisher) fullest(topic string) (messages int, full bool) {
	r := p.route(topic)
	p.engine.refresh(r, nil)
	for i := range r.to {
		n, half := r.to[i].session.backlog()
		if half {
			messages, full = max(messages, n), true
		}
	}
	for _, b := range r.peers {
		if n, half := b.peer.backlog(); half {
			messages, full = max(messages, n), true
		}
	}
	for _, g := range r.matches.Groups {
		for _, member := range g.Members {
			if n, half := member.Who.backlog(); half {
				messages, full = max(messages, n), true
			}
		}
	}
	return messages, full
}

// backlog returns the number of queued messages of a connected client, and reports whether the
// queue is more than half full.
func (s *Session) backlog() (messages int, half bool) {
	if s.peer != nil {
		return s.peer.backlog()
	}
	c := &s.engine.config
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return 0, false
	}
	n := s.out.waiting()
	return n, n > c.MaxQueuedMessages/2 || s.out.bytes > c.MaxQueuedBytes/2
}

// route returns the cached route of a topic, or a new one.
func (p *Publisher) route(topic string) *route {
	r := p.known[topic]
	if r == nil {
		if len(p.known) >= maxKnown {
			clear(p.known)
		}
		r = &route{topic: topic}
		p.known[topic] = r
	}
	return r
}
