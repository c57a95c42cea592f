package engine

import (
	"bytes"
	"slices"
	"time"
)

// With AgreeRetained, the retained messages of all nodes follow the order of a log that
// the nodes share. A change is shown at once at the node where it was published and at
// those it is forwarded to; when the log delivers it, it is stored. In the end a topic has
// what the log delivered last, whatever was shown meanwhile.

const (
	// unconfirmedFor is how long a change is shown that the log does not deliver.
	unconfirmedFor = 10 * time.Second
	// maxAwaited bounds the unconfirmed changes. Above it, changes of other nodes are not
	// shown until the log delivers them.
	maxAwaited = 16_384
)

// awaited is a change that is shown and that the log is to deliver.
type awaited struct {
	message *Message // nil if the topic was cleared
	until   int64    // epoch milliseconds; 0 while its publisher waits for the outcome
}

// NextMessageID returns an unused message ID of this node.
func (e *Engine) NextMessageID() uint64 { return e.lastMessage.Add(1) }

// AgreeRetained sets whether changes of retained messages are submitted separately, and
// decided by the log that ApplyRetained applies, instead of by the store alone.
func (e *Engine) AgreeRetained(agreed bool) {
	e.retained.mu.Lock()
	defer e.retained.mu.Unlock()
	e.retained.agreed = agreed
}

// ApplyRetained applies changes that the log delivers, in its order. keep stores them and
// waits for the commit. The engine owns the messages from then on and assigns IDs of this
// node to them. It is called by one goroutine at a time.
func (e *Engine) ApplyRetained(records []RetainedRecord, keep func(*Changes) error) error {
	c := &Changes{Retained: records}
	for i := range records {
		if m := records[i].Message; m != nil {
			m.ID = e.lastMessage.Add(1)
			c.Messages = append(c.Messages, m)
		}
	}
	pending := e.retained.expectStore(records)
	err := keep(c)
	e.retained.applyAgreed(pending, records, err == nil)
	return err
}

// expectStore marks topics as pending, so that they are not cleared by expiry meanwhile.
func (r *retained) expectStore(records []RetainedRecord) []*pendingRetained {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := make([]*pendingRetained, len(records))
	for i, record := range records {
		pending[i] = r.beginStore(record.Topic)
	}
	return pending
}

// applyAgreed applies what the log has delivered, except for topics that were reset
// meanwhile.
func (r *retained) applyAgreed(pending []*pendingRetained, records []RetainedRecord, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, record := range records {
		f := pending[i]
		if r.pending[record.Topic] != f {
			continue
		}
		f.under--
		if stored {
			f.stored = record.Message
			if record.Message != nil {
				r.applied.add(record.Message)
			}
			r.drop(f, func(a awaited) bool { return same(a.message, record.Message) })
		}
		r.finishPending(record.Topic, f)
	}
}

// same reports whether two messages for one topic come from the same publish. Time,
// publisher and content distinguish messages, so no number is needed.
func same(a, b *Message) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CreatedAt == b.CreatedAt && a.Publisher == b.Publisher && a.QoS == b.QoS &&
		bytes.Equal(a.Payload, b.Payload) && bytes.Equal(a.Properties, b.Properties)
}

// drop removes the first awaited change that fits.
func (r *retained) drop(f *pendingRetained, fits func(awaited) bool) {
	if i := slices.IndexFunc(f.awaited, fits); i >= 0 {
		f.awaited = slices.Delete(f.awaited, i, i+1)
		r.awaited--
	}
}

// await adds a change that is shown and that the log is to deliver. mu is held.
func (r *retained) await(topic string, a awaited) {
	f := r.pendingFor(topic)
	if a.message != nil && len(a.message.Payload) == 0 {
		a.message = nil
	}
	f.awaited = append(f.awaited, a)
	r.awaited++
}

// beginChange records a change that a publication is about to submit. mu is held.
func (r *retained) beginChange(p *publication, topic string, m *Message) {
	if p.agreed {
		r.await(topic, awaited{message: m})
		return
	}
	p.pendingRetained = r.beginStore(topic)
}

// agreedOutcome handles the outcome of a change that was proposed to the log. A committed
// change is still to be delivered, before until.
func (r *retained) agreedOutcome(record RetainedRecord, agreed bool, until int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.pending[record.Topic]
	if f == nil {
		return
	}
	own := func(a awaited) bool { return a.message == record.Message && a.until == 0 }
	if !agreed {
		r.drop(f, own)
		r.finishPending(record.Topic, f)
		return
	}
	if i := slices.IndexFunc(f.awaited, own); i >= 0 {
		f.awaited[i].until = until
		r.watch()
	}
}

// applyUnconfirmed shows a change that was forwarded from another node, unless the log has
// delivered it before. retained.mu is held.
func (e *Engine) applyUnconfirmed(m *Message) {
	r := e.retained
	if !r.agreed || r.awaited >= maxAwaited || r.applied.has(m) {
		return
	}
	m.ID = e.lastMessage.Add(1) // before it is visible
	r.await(m.Topic, awaited{m, e.unconfirmedUntil()})
	r.set(m)
	r.watch()
}

func (e *Engine) unconfirmedUntil() int64 { return e.now() + unconfirmedFor.Milliseconds() }

// watch starts the timer that drops unconfirmed changes. mu is held.
func (r *retained) watch() {
	if r.watching || r.closed {
		return
	}
	r.watching = true
	if r.timer == nil {
		r.timer = time.AfterFunc(unconfirmedFor/4, r.dropUnconfirmed)
		return
	}
	r.timer.Reset(unconfirmedFor / 4)
}

// dropUnconfirmed shows what is stored again in place of changes that the log did not
// deliver in time: the publisher was refused, or the message was forwarded late.
func (r *retained) dropUnconfirmed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watching = false
	now := r.now()
	for topic, f := range r.pending {
		before := len(f.awaited)
		f.awaited = slices.DeleteFunc(f.awaited, func(a awaited) bool { return a.until != 0 && a.until <= now })
		r.awaited -= before - len(f.awaited)
		r.finishPending(topic, f)
	}
	if r.awaited > 0 {
		r.watch()
	}
}

// stop stops the timer.
func (r *retained) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

// ReplaceRetained shows the stored messages, after the store replaced them as a whole.
func (e *Engine) ReplaceRetained(messages []*Message) {
	r := e.retained
	r.mu.Lock()
	defer r.mu.Unlock()
	left := map[string]struct{}{}
	_, kept := r.index.Page("", 0, -1)
	for _, k := range kept {
		if isDurable(k.Topic) {
			left[k.Topic] = struct{}{}
		}
	}
	for topic := range r.pending {
		left[topic] = struct{}{}
	}
	for _, m := range messages {
		delete(left, m.Topic)
		r.replace(m.Topic, m)
	}
	for topic := range left {
		r.replace(topic, nil)
	}
}

// replace sets what is stored for a topic, nil for nothing. mu is held.
func (r *retained) replace(topic string, m *Message) {
	f := r.pending[topic]
	if f == nil {
		f = &pendingRetained{}
	}
	f.stored = m
	r.finishPending(topic, f)
}

// ownPublication returns the publication for the retained message of a publish, which is
// proposed separately. The publish is acknowledged after it, and the packet identifier of
// QoS 2, by which the client need not send it again, is not stored before it.
func (e *Engine) ownPublication(of *publication) *publication {
	own := e.newPublication()
	own.agreed, own.generation = true, of.generation
	switch {
	case of.Owed: // must be stored, and no acknowledgement waits for it
	case len(of.Received) > 0:
		own.parent = of
		of.acquireStore()
	default:
		own.parent, own.ackOnly = of, true
		of.acquireAck()
	}
	return own
}
