package engine

import (
	"slices"

	"signalbox/broker/mqtt/topics"
)

// Receiver accepts the messages of another node's publishers. It is used by one goroutine
// at a time.
type Receiver struct{ publisher *Publisher }

// NewReceiver returns a Receiver.
func (e *Engine) NewReceiver() *Receiver { return &Receiver{e.NewPublisher()} }

// Receive delivers a message to this node's own subscribers and taps, never to other nodes.
// It does not wait for the store. It returns the shared subscriptions that have no member
// here. A late message, which arrives after messages that were published later, is not shown
// as retained until the log delivers it. The caller must call Flush before it waits.
func (r *Receiver) Receive(m *Message, c Forward, late bool) (untaken []string) {
	e, known := r.publisher.engine, r.publisher.route(m.Topic)
	pub := e.newPublication()
	pub.receipt = c.Receipt
	if m.Retain && isDurable(m.Topic) {
		e.retained.mu.Lock()
		defer e.retained.mu.Unlock()
		if !late {
			e.applyUnconfirmed(m)
		}
	}
	e.refresh(known, nil)
	if err := e.store.Err(); err != nil && c.QoS > 0 && !canQueue(m, known) {
		e.meters.drop(DropNotStored, 1)
		pub.recycle()
		c.notify(err)
		return nil
	}
	if c.Direct {
		e.tap(m, known, pub)
		e.routeCounted(m, known, nil, pub, &r.publisher.touched)
	}
	untaken = e.receiveShares(m, known, c.Shares, pub, &r.publisher.touched)
	if !pub.storeAny() {
		c.notify(nil)
	}
	return untaken
}

// receiveShares queues a message for members of shared subscriptions, and returns those that
// have none here.
func (e *Engine) receiveShares(m *Message, r *route, shares []string, pub *publication, touched *[]*Conn) (untaken []string) {
	for _, share := range shares {
		i := slices.IndexFunc(r.matches.Groups, func(g *topics.Group[*Session]) bool { return g.Filter == share })
		if i < 0 || !e.routeSharedLocal(r.matches.Groups[i], m, pub, touched) {
			untaken = append(untaken, share)
		}
	}
	return untaken
}

func (c *Forward) notify(err error) {
	if c.Receipt != nil {
		c.Receipt.Committed(err)
	}
}

// Flush flushes the connections of the recipients, and waits while too much is to be stored.
func (r *Receiver) Flush() {
	r.publisher.flushTouched()
	r.publisher.engine.store.WaitForCapacity()
}
