package engine

import (
	"context"
	"time"

	"signalbox/broker/mqtt/topics"
)

// Tap takes the messages of a topic filter in this process. Its methods are
// called on the goroutine of the publisher, in the order of each publisher,
// before the message is delivered; they must not block.
type Tap interface {
	// AwaitsCommit reports whether a message above QoS 0 is not to be acknowledged to its
	// publisher before the tap has committed it.
	AwaitsCommit() bool
	// Take is given a message. Where hold is not nil it must be committed once.
	Take(m *Message, hold *CommitBarrier)
}

// CommitBarrier keeps a message from being acknowledged.
type CommitBarrier publication

// Committed lets the message be acknowledged; or, with an error, refuses it as one
// that cannot be stored. It does not wait.
func (h *CommitBarrier) Committed(err error) { (*publication)(h).releaseStore(err) }

// openTap is a tap that was opened.
type openTap struct {
	tap    Tap
	filter string
}

// Open passes a tap the messages that are published from now on to topics that
// the filter matches. After close has returned, messages that were published
// before may still come, but none that is published afterwards.
func (e *Engine) Open(filter string, tap Tap) (close func()) {
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

// tap shows a message to the taps of its topic. Those that hold it keep it from
// being stored: what is stored of a message says that its sender need not send
// it again.
func (e *Engine) tap(m *Message, r *route, pub *publication) {
	for i := range r.taps.Subscribers {
		t := r.taps.Subscribers[i].Who.tap
		var hold *CommitBarrier
		if m.QoS > 0 && !pub.Owed && t.AwaitsCommit() { // no acknowledgement waits for what is owed
			pub.acquireStore()
			hold = (*CommitBarrier)(pub)
		}
		t.Take(m, hold)
	}
}

// Publisher publishes many messages of the broker's own. It is used by one
// goroutine at a time.
type Publisher struct {
	engine  *Engine
	known   map[string]*route
	touched []*Conn
}

// NewPublisher returns a Publisher.
func (e *Engine) NewPublisher() *Publisher { return &Publisher{engine: e, known: map[string]*route{}} }

// Publish delivers a message, without waiting for what has to be stored of it. It
// answers false where that cannot be stored at present. Flush must follow before
// the publisher rests.
func (p *Publisher) Publish(m *Message) bool { return p.publish(m, nil) }

// PublishWithResult is Publish for who wants to know the outcome of the message: where
// there is something to wait for, stored gives it.
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
	pub := e.newPublication() // before it is asked whether it can be stored, which Suspend and Resume may change
	pub.done = done
	if !e.canStore(m, r, e.store.Err()) {
		e.meters.drop(DropNotStored, 1)
		pub.recycle()
		return false
	}
	if !e.publish(m, r, nil, pub, &p.touched) && done != nil {
		done <- nil
	}
	return true
}

// Flush sends what was published on its way, and waits while too much is to be
// stored.
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

// How often Room looks at queues, and how long it waits for one that stays as
// long as it is.
const (
	capacityPollInterval = 2 * time.Millisecond
	capacityTimeout      = 5 * time.Second
)

// WaitForCapacity waits until no connected subscriber of a topic has its queue more than
// half full, as long as these queues become shorter. Whoever is away is not
// waited for.
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

// fullest returns the most messages that wait for a connected subscriber whose
// queue is more than half full, if there is one.
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

// backlog returns how many messages wait for a client that is connected, and
// whether that is more than half of what may.
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

// route finds what is known of a topic.
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
