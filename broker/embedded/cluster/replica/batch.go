package replica

import (
	"context"

	"signalbox/broker/embedded/engine"
)

// batch is a group of changes that are replicated together.
type batch struct {
	group  []*engine.Changes
	weight int
	wait   func(context.Context) error // for the consensus; nil if the batch was not proposed
	err    error                       // why this batch was not proposed
}

func newBatch() *batch { return &batch{} }

// report calls Done of the changes, which may be reused then.
func (b *batch) report(err error) {
	for _, c := range b.group {
		c.Committed(err)
	}
}

func (b *batch) reset() {
	clear(b.group)
	*b = batch{group: b.group[:0]}
}

// The weight of a record without its texts, in bytes: more than its encoding takes.
const (
	recordWeight = 64
	idWeight     = 5 // of a subscription identifier
)

// weigh returns an upper bound of the encoding of changes, in bytes, which is also about
// the memory they take. So a batch need not be encoded to know its size.
func weigh(c *engine.Changes) int {
	records := len(c.PutSessions) + len(c.Subscribed) + len(c.Unsubscribed) + len(c.Messages) + len(c.Enqueued) +
		len(c.Released) + len(c.Received) + len(c.Retained) + len(c.Dequeued) + len(c.Forgotten) + len(c.EndedSessions)
	w := (1 + records) * recordWeight
	for i := range c.PutSessions {
		w += weighSession(&c.PutSessions[i])
	}
	for i := range c.Subscribed {
		w += len(c.Subscribed[i].Filter)
	}
	for i := range c.Unsubscribed {
		w += len(c.Unsubscribed[i].Filter)
	}
	return w + weighMessages(c)
}

func weighSession(r *engine.SessionRecord) int {
	w := recordWeight + len(r.ClientID) + len(r.Username) + len(r.Address)
	if will := r.Will; will != nil {
		w += recordWeight + len(will.Topic) + len(will.Payload) + len(will.Properties)
	}
	return w
}

// weighMessages weighs messages and the records that refer to them. A message that is not
// among the new ones counts each time the record before refers to another one.
func weighMessages(c *engine.Changes) (w int) {
	var last *engine.Message
	for _, m := range c.Messages {
		w += weighMessage(m)
		last = m
	}
	refer := func(m *engine.Message) {
		if m != nil && m != last {
			w += weighMessage(m)
			last = m
		}
	}
	for i := range c.Enqueued {
		r := &c.Enqueued[i]
		w += idWeight*len(r.SubscriptionIDs) + len(r.Share)
		refer(r.Message)
	}
	for i := range c.Retained {
		w += len(c.Retained[i].Topic)
		refer(c.Retained[i].Message)
	}
	return w
}

func weighMessage(m *engine.Message) int {
	return recordWeight + len(m.Topic) + len(m.Payload) + len(m.Properties) + len(m.Publisher) + len(m.Username)
}
