package engine

import (
	"bytes"
	"slices"
	"time"
)

// Retained messages that all nodes have alike are decided by the order of a log
// they share. A change is shown at once where it was published and where it
// is forwarded to; when the log brings it, it is stored. In the end a topic has what
// the log brought last, whatever was shown meanwhile.

const (
	// foreseen is how long a change is shown that the log does not bring.
	unconfirmedFor = 10 * time.Second
	// maxAwaited bounds the changes that the log is to bring. Above it, those of
	// other nodes are not shown before.
	maxAwaited = 16_384
)

// awaited is a change that is shown and that the log is to bring.
type awaited struct {
	message *Message // nil where the topic was cleared
	until   int64    // epoch milliseconds; 0 while its publisher waits for it
}

// NextMessageID returns a number that no message of this node has.
func (e *Engine) NextMessageID() uint64 { return e.lastMessage.Add(1) }

// AgreeRetained has changes of retained messages submitted by themselves, and
// decided by what ApplyRetained is given; or, with false, by the store alone.
func (e *Engine) AgreeRetained(agreed bool) {
	e.retained.mu.Lock()
	defer e.retained.mu.Unlock()
	e.retained.agreed = agreed
}

// ApplyRetained makes changes that the log brings, in its order. keep stores them
// and waits for that. The messages belong to the engine from then on and are
// given numbers of this node. It is called by one goroutine at a time.
func (e *Engine) ApplyRetained(records []RetainedRecord, keep func(*Changes) error) error {
	c := &Changes{Retained: records}
	for i := range records {
		if m := records[i].Message; m != nil {
			m.ID = e.lastMessage.Add(1)
			c.Messages = append(c.Messages, m)
		}
	}
	fluxes := e.retained.expectStore(records)
	err := keep(c)
	e.retained.applyAgreed(fluxes, records, err == nil)
	return err
}

// expectStore keeps topics from being cleared for their age meanwhile.
func (r *retained) expectStore(records []RetainedRecord) []*pendingRetained {
	r.mu.Lock()
	defer r.mu.Unlock()
	fluxes := make([]*pendingRetained, len(records))
	for i, record := range records {
		fluxes[i] = r.beginStore(record.Topic)
	}
	return fluxes
}

// applyAgreed notes what the log has brought, but for what was begun before everything
// was forgotten.
func (r *retained) applyAgreed(fluxes []*pendingRetained, records []RetainedRecord, stored bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, record := range records {
		f := fluxes[i]
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

// same reports whether two messages for one topic come from the same publish.
func same(a, b *Message) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CreatedAt == b.CreatedAt && a.Publisher == b.Publisher && a.QoS == b.QoS &&
		bytes.Equal(a.Payload, b.Payload) && bytes.Equal(a.Properties, b.Properties)
}

// drop takes the first change out that fits.
func (r *retained) drop(f *pendingRetained, fits func(awaited) bool) {
	if i := slices.IndexFunc(f.awaited, fits); i >= 0 {
		f.awaited = slices.Delete(f.awaited, i, i+1)
		r.awaited--
	}
}

// await notes a change that is shown and that the log is to bring. mu is held.
func (r *retained) await(topic string, a awaited) {
	f := r.pendingFor(topic)
	if a.message != nil && len(a.message.Payload) == 0 {
		a.message = nil
	}
	f.awaited = append(f.awaited, a)
	r.awaited++
}

// beginChange notes a change that a publication is about to hand over. mu is held.
func (r *retained) beginChange(p *publication, topic string, m *Message) {
	if p.agreed {
		r.await(topic, awaited{message: m})
		return
	}
	p.pendingRetained = r.beginStore(topic)
}

// agreedOutcome notes the outcome of a change that was to be agreed upon. One that was
// is still to be brought, soon.
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

// applyUnconfirmed shows a change that was forwarded from another node, unless the log has brought
// it before. retained.mu is held.
func (e *Engine) applyUnconfirmed(m *Message) {
	r := e.retained
	if !r.agreed || r.awaited >= maxAwaited || r.applied.has(m) {
		return
	}
	m.ID = e.lastMessage.Add(1) // before anybody finds it
	r.await(m.Topic, awaited{m, e.unconfirmedUntil()})
	r.set(m)
	r.watch()
}

func (e *Engine) unconfirmedUntil() int64 { return e.now() + unconfirmedFor.Milliseconds() }

// watch sees to it that what is awaited in vain is given up. mu is held.
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

// dropUnconfirmed shows what is stored again in place of what the log did not bring.
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

// stop ends what watch began.
func (r *retained) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

// ReplaceRetained has the topics what is stored now, after that was replaced as
// a whole.
func (e *Engine) ReplaceRetained(messages []*Message) {
	r := e.retained
	r.mu.Lock()
	defer r.mu.Unlock()
	left := map[string]struct{}{}
	_, kept := r.index.Page("", 0, -1)
	for _, k := range kept {
		if lasting(k.Topic) {
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

// ownPublication is one for what is retained of a message, which is agreed upon
// by itself: the message is acknowledged after it, and what says that it need not
// be sent again is not stored before it.
func (e *Engine) ownPublication(of *publication) *publication {
	own := e.newPublication()
	own.agreed, own.generation = true, of.generation
	switch {
	case of.Owed: // no acknowledgement waits for it, and it must be stored
	case len(of.Received) > 0:
		own.parent = of
		of.acquireStore()
	default:
		own.parent, own.ackOnly = of, true
		of.acquireAck()
	}
	return own
}
