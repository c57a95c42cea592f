package mqtt

import (
	"context"
	"slices"
	"sync"
	"time"

	"signalbox/broker/messaging"
)

// Bounds of the messages that wait to be published here. Messages above QoS 0 are limited by the
// receive maximum.
const (
	maxQoS0Messages = 10_000   // of QoS 0; the newest are discarded
	maxQoS0Bytes    = 64 << 20 // of QoS 0
	publishBatch    = 256      // published at once

	retryPublish = 500 * time.Millisecond // delay while this broker is unavailable
)

// receiver receives the messages of one filter from the other broker.
type receiver struct {
	*connector
	route *route
	index int // of the pattern
}

// Keeps returns true: a message that was not published here is sent again.
func (*receiver) Keeps() bool { return true }

// Take queues a message for publishing here, if it has not been here.
func (in *receiver) Take(m messaging.Message, notifier messaging.CommitNotifier) {
	if in.firstGranted(in.route, m.Topic) != in.index {
		acknowledge(notifier, nil) // another pattern receives it too
		return
	}
	a := inboundMessage{message: m, notifier: notifier}
	topic, ok := in.route.toLocal(m.Topic)
	switch {
	case !ok:
		in.meter.Dropped.Add(1)
	case !in.accept(&a, m.Topic, topic):
		in.meter.Looped.Add(1)
	case in.inbound.put(a):
		return
	default:
		in.meter.Dropped.Add(1)
		in.guard.seen.remove(a.key)
	}
	acknowledge(notifier, nil)
}

func acknowledge(s messaging.CommitNotifier, err error) {
	if s != nil {
		s.Committed(err)
	}
}

// accept changes a message to the one that is to be published here. It reports false if the
// message has been here, or arrives over another path.
func (in *receiver) accept(a *inboundMessage, there, here string) bool {
	t, rest := splitTrace(a.message.Properties)
	peer := in.peer()
	if t == nil {
		t = &trace{topic: tokenOf(there)}
		t.id = in.guard.messageID(0)
	}
	direct := len(t.visited) == 0 || len(t.visited) == 1 && t.visited[0] == peer
	if t.hasVisited(in.guard.self) || !direct && (t.covers(in.guard.self, here) || in.guard.receivesDirectly(t, here, a.message.QoS)) || !t.addVisited(peer) {
		return false
	}
	a.key = dedupKey{t.id, tokenOf(here)}
	a.message.Topic, a.message.Properties = here, t.join(rest)
	a.message.QoS, a.message.Retain = min(a.message.QoS, in.route.qos), a.message.Retain && in.route.retain
	return in.guard.seen.add(a.key) || in.inbound.replace(a.key) || in.guard.seen.add(a.key) // it may have been dropped meanwhile
}

// inboundMessage is a message that is to be published here.
type inboundMessage struct {
	message  messaging.Message
	notifier messaging.CommitNotifier // nil at QoS 0
	key      dedupKey
	replaced bool // the same message was received again, and is queued
}

// inbound is the queue of messages to be published here. It is safe for concurrent use.
type inbound struct {
	wake chan struct{} // buffered by one

	mu           sync.Mutex // guards the fields below
	list         []inboundMessage
	taken        []inboundMessage // the last ones that take has returned
	qos0Messages int              // number of messages of QoS 0
	qos0Bytes    int              // size of messages of QoS 0
	closed       bool
}

// put adds a message unless a bound is reached.
func (q *inbound) put(a inboundMessage) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if a.notifier == nil {
		if n := a.message.Size(); q.qos0Messages >= maxQoS0Messages || q.qos0Bytes+n > maxQoS0Bytes {
			return false
		}
		q.qos0Messages++
		q.qos0Bytes += a.message.Size()
	}
	q.list = append(q.list, a)
	signal(q.wake)
	return true
}

// take removes some messages; over is true if there will be no more.
func (q *inbound) take() (part []inboundMessage, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.list), publishBatch)
	part = append(part, q.list[:n]...)
	q.taken = part
	clear(q.list[:n])
	if q.list = q.list[n:]; len(q.list) == 0 {
		q.list = nil
	}
	for i := range part {
		if part[i].notifier == nil {
			q.qos0Messages--
			q.qos0Bytes -= part[i].message.Size()
		}
	}
	return part, q.closed && n == 0
}

// replace reports whether a message that is received again waits here, or was taken from the queue last, and is withdrawn: then it
// is not published, or was not acknowledged.
func (q *inbound) replace(key dedupKey) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, list := range [][]inboundMessage{q.taken, q.list} {
		for i := range list {
			a := &list[i]
			switch {
			case a.notifier == nil:
			case !messaging.Withdrawn(a.notifier):
				return false // nor is any behind it
			case a.key == key:
				a.replaced = true
				return true
			}
		}
	}
	return false
}

// dropWithdrawn returns what is not withdrawn of messages that were taken from the queue.
func (c *connector) dropWithdrawn(part []inboundMessage) (kept []inboundMessage) {
	var dropped []messaging.CommitNotifier
	c.inbound.mu.Lock()
	kept = slices.DeleteFunc(part, func(a inboundMessage) bool {
		if !messaging.Withdrawn(a.notifier) {
			return false
		}
		if !a.replaced {
			c.guard.seen.remove(a.key)
		}
		dropped = append(dropped, a.notifier)
		return true
	})
	c.inbound.mu.Unlock()
	for _, n := range dropped {
		n.Committed(nil)
	}
	return kept
}

// close refuses further messages.
func (q *inbound) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	signal(q.wake)
}

// publishInbound publishes incoming messages until there will be no more, or the context ends.
func (c *connector) publishInbound(ctx context.Context) {
	for {
		part, over := c.inbound.take()
		switch {
		case over:
			return
		case len(part) > 0:
			c.publish(ctx, part)
			continue
		}
		select {
		case <-c.inbound.wake:
		case <-ctx.Done():
			return
		}
	}
}

// publish publishes messages here and acknowledges those with an outcome. The rest is sent again
// after the context has ended, and to another node if it is withdrawn.
func (c *connector) publish(ctx context.Context, part []inboundMessage) {
	for part = c.dropWithdrawn(part); len(part) > 0; part = c.dropWithdrawn(part) {
		if b, ok := c.local.(messaging.StoringBroker); ok {
			var err error
			if part, err = c.publishStored(ctx, b, part); err != nil {
				return
			}
			continue
		}
		done, refused, err := c.local.Publish(ctx, messagesOf(part))
		c.meter.Dropped.Add(int64(refused))
		c.meter.Inbound.Add(int64(done - refused))
		for i := range part[:done] {
			acknowledge(part[i].notifier, nil)
		}
		if part = part[done:]; err == nil {
			continue
		}
		if b, ok := c.local.(messaging.ServingBroker); ok && !messaging.IsServing(b) {
			part = c.dropQoS0(c.dropWithdrawn(part))
		}
		if len(part) > 0 && !wait(ctx, retryPublish) {
			return
		}
	}
}

// publishStored has messages published and stored, and acknowledges them. If another node takes the messages of the broker before that is
// done, it waits for the next turn of this one, and returns those that are left. The error is that of the context.
func (c *connector) publishStored(ctx context.Context, b messaging.StoringBroker, part []inboundMessage) (left []inboundMessage, err error) {
	serving, is := messaging.ServingNow(b)
	if !is {
		if part = c.dropQoS0(part); len(part) > 0 {
			_, err = b.Serving(ctx)
		}
		return part, err
	}
	if part = c.dropWithdrawn(part); len(part) == 0 { // in former turns, none of which is the present one
		return nil, nil
	}
	bound, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(serving, cancel)()
	errs := make([]error, len(part))
	if b.PublishStored(bound, messagesOf(part), errs) != nil {
		return c.dropQoS0(part), ctx.Err()
	}
	c.acknowledgeAll(part, errs)
	return nil, nil
}

// dropQoS0 returns the messages above QoS 0. The others would follow newer ones of another node.
func (c *connector) dropQoS0(part []inboundMessage) []inboundMessage {
	c.inbound.mu.Lock()
	defer c.inbound.mu.Unlock()
	return slices.DeleteFunc(part, func(a inboundMessage) bool {
		if a.notifier != nil {
			return false
		}
		c.meter.Dropped.Add(1)
		c.guard.seen.remove(a.key)
		return true
	})
}

func messagesOf(part []inboundMessage) []messaging.Message {
	list := make([]messaging.Message, 0, len(part))
	for i := range part {
		list = append(list, part[i].message)
	}
	return list
}

// acknowledgeAll acknowledges messages.
func (c *connector) acknowledgeAll(part []inboundMessage, errs []error) {
	for i := range part {
		if errs[i] == nil {
			c.meter.Inbound.Add(1)
		} else {
			c.meter.Dropped.Add(1)
			c.guard.seen.remove(part[i].key)
		}
		acknowledge(part[i].notifier, errs[i])
	}
}

// wait waits. It reports whether the whole time has passed.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// signal sends to a channel that is buffered by one, unless a value is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
