package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Fill adds what is queued for the session at other engines: Queue, Incoming and SentSeq
// of each part. It waits until that is stored. Messages keep their sequence numbers if
// these are free, and so their packet identifiers. A message that is queued here already by
// another number is left out, and of QoS 2 the one that was sent stays; if both were, the client may wait
// for the release of both identifiers, and one of them is only released.
func (a *Adoption) Fill(parts ...*StoredSession) error {
	s := a.session
	added, outdone, err := a.choose(parts)
	if err != nil {
		return fmt.Errorf("read what waits for a session that comes from another node: %w", err)
	}
	var incoming []IncomingRecord
	for _, p := range parts {
		for _, id := range p.Incoming {
			incoming = append(incoming, IncomingRecord{SessionID: s.id, PacketID: id})
		}
	}
	if err := s.storeAdded(added, incoming); err != nil {
		s.withdraw(added, incoming)
		return fmt.Errorf("store what waits for a session that comes from another node: %w", err)
	}
	if !a.include(added, outdone, incoming) {
		s.withdraw(added, incoming)
		return ErrNoClient
	}
	return nil
}

// selection is the state of choose.
type selection struct {
	here  map[uint64]*Message   // messages that were read from the store, by sequence number
	own   map[messageKey]uint64 // queued here before, by sequence number; 0 if it was outdone
	known messageKeys           // own, and those chosen
	taken map[uint64]*Message   // chosen, by sequence number
	late  map[string]bool       // publishers whose further messages go behind those queued here

	released []QueueRecord // queued here, for which the other engine received PUBREC
	outdone  []uint64      // queued here and not sent, while the other engine has sent them by another number
}

// choose returns the messages that the session does not have yet, in the order of the
// sequence numbers that they get. Sent messages are numbered first, because they must keep
// their numbers. Outdone are the sequence numbers of messages here that these replace.
func (a *Adoption) choose(parts []*StoredSession) (added []entry, outdone []uint64, err error) {
	s := a.session
	here, err := s.loadSame(parts)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &selection{here: here, own: map[messageKey]uint64{}, known: messageKeys{}, taken: map[uint64]*Message{}}
	for e := range s.out.all() {
		if x.known.add(e) && e.stamp != 0 {
			x.own[messageKeyOf(e.stamp, e.extra, e.retain)] = e.seq
		}
	}
	for _, progress := range []state{sent | released, sent, 0} {
		for _, p := range parts {
			x.late = map[string]bool{}
			for _, r := range p.Queue {
				e := entryOf(r, p.SentSeq)
				if e.state&(sent|released) == progress && a.number(&e, x) {
					added = append(added, e)
				}
			}
		}
	}
	if len(x.released) > 0 {
		s.put(&Changes{Owed: true, Released: x.released})
	}
	slices.SortFunc(added, func(a, b entry) int { return cmp.Compare(a.seq, b.seq) })
	return added, x.outdone, nil
}

// number assigns a sequence number to a message of another engine. It returns false if the
// session has the message already. What a publisher sent after a message that is queued
// here goes behind that message.
func (a *Adoption) number(e *entry, x *selection) bool {
	s := a.session
	key := messageKeyOf(e.stamp, e.extra, e.retain)
	if _, queued := x.own[key]; queued {
		x.late[e.message.Publisher] = true
	}
	own := s.out.get(e.seq)
	if own != nil && own.messageIn(x.here).equals(e.message) { // a part of the session was taken over before
		s.transfer.keys.add(e)
		s.advance(own, e.state, x)
		return false
	}
	other, occupied := x.taken[e.seq]
	if other.equals(e.message) { // it is in two parts
		return false
	}
	occupied = occupied || own != nil
	if !x.known.add(e) && !a.settle(e, key, occupied, x) {
		return false
	}
	s.transfer.keys.add(e) // it may also arrive by a link
	if occupied && e.state&released != 0 {
		return false // by another number nothing waits for its release
	}
	late := e.state&sent == 0 && x.late[e.message.Publisher]
	if occupied || late || e.seq == 0 || e.seq >= s.out.tail {
		e.seq = s.out.tail
		s.out.tail++
	}
	x.taken[e.seq] = e.message
	return true
}

// settle decides about a message that is known by another number. If the client may wait for the release of
// its identifier, it is only released, or takes the place of the one here, if that is stored and was not sent. It
// returns false if the message is left out: others, and an unreleased one that cannot keep its number. mu is held.
func (a *Adoption) settle(e *entry, key messageKey, occupied bool, x *selection) bool {
	if e.qos < 2 || e.state&sent == 0 || occupied && e.state&released == 0 {
		return false
	}
	own := a.session.out.get(x.own[key])
	switch {
	case own != nil && own.state&(sent|committed) == committed:
		x.outdone = append(x.outdone, own.seq)
		x.own[key] = 0
		return true
	case own != nil && e.state&released != 0:
		a.session.advance(own, released, x) // the client has the message
	}
	e.state |= released
	return true
}

// messageIn returns the message, from those that were read from the store if it is not in memory.
func (e *entry) messageIn(read map[uint64]*Message) *Message {
	if e.message == nil {
		return read[e.seq]
	}
	return e.message
}

// advance records what another engine did with a message that is queued here as well. mu is
// held.
func (s *Session) advance(own *entry, to state, x *selection) {
	if to&sent != 0 {
		own.state |= sent
		s.out.upTo = max(s.out.upTo, own.seq)
	}
	if to&released != 0 && own.qos == 2 && own.state&released == 0 {
		s.out.release(own)
		x.released = append(x.released, QueueRecord{SessionID: s.id, Seq: own.seq, Released: true})
	}
}

// equals reports whether a message, nil for none, is the same as a decoded one.
func (m *Message) equals(other *Message) bool {
	return m != nil && m.Topic == other.Topic && m.CreatedAt == other.CreatedAt && m.Publisher == other.Publisher &&
		bytes.Equal(m.Payload, other.Payload)
}

// entryOf returns a queued message of another engine, where all up to a sequence number
// were sent.
func entryOf(r QueueRecord, upTo uint64) entry {
	e := newEntry(r.Message, newExtra(r.SubscriptionIDs, r.Share), r.QoS, r.Retain)
	e.seq, e.state = r.Seq, committed
	switch {
	case r.Released:
		e.state |= released | sent
	case r.Seq <= upTo:
		e.state |= sent
	}
	return e
}

// record returns the message as the store has it.
func (e *entry) record(session uint64) QueueRecord {
	r := QueueRecord{
		SessionID: session, Seq: e.seq, Message: e.message, QoS: e.qos, Retain: e.retain, Released: e.state&released != 0,
	}
	if e.extra != nil {
		r.SubscriptionIDs, r.Share = e.extra.ids, e.extra.share
	}
	return r
}

// addedAtOnce is how many messages one transaction stores.
const addedAtOnce = 1000

// storeAdded stores messages and packet identifiers of other engines.
func (s *Session) storeAdded(added []entry, incoming []IncomingRecord) error {
	e := s.engine
	var outcomes []result
	for first := true; first || len(added) > 0; first = false {
		c := &Changes{}
		if first {
			c.Received = incoming
		}
		n := min(len(added), addedAtOnce)
		for i := range added[:n] {
			m := added[i].message
			m.ID = e.lastMessage.Add(1)
			added[i].id = m.ID
			c.Messages = append(c.Messages, m)
			c.Enqueued = append(c.Enqueued, added[i].record(s.id))
		}
		added = added[n:]
		e.store.WaitForCapacity()
		outcome := make(result, 1)
		c.Done = outcome
		s.generation.submit(c)
		outcomes = append(outcomes, outcome)
	}
	var failed error
	for _, outcome := range outcomes {
		if err := <-outcome; err != nil {
			failed = err
		}
	}
	return failed
}

// withdraw deletes from the store what was added and cannot be used.
func (s *Session) withdraw(added []entry, incoming []IncomingRecord) {
	c := &Changes{Owed: true, Forgotten: incoming}
	for i := range added {
		c.Dequeued = append(c.Dequeued, QueueRecord{SessionID: s.id, Seq: added[i].seq})
	}
	s.generation.submit(c)
}

// include adds to the session what was stored for it, and deletes what that has outdone. It returns false if the
// session has ended, or its client has connected, meanwhile.
func (a *Adoption) include(added []entry, outdone []uint64, incoming []IncomingRecord) bool {
	s := a.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.conn != nil {
		return false
	}
	s.out.insert(added)
	s.evictAll()
	if s.out.tail == a.base { // no message was queued meanwhile
		s.out.close(a.floor)
	}
	for i := range added {
		s.out.shares = s.out.shares || added[i].extra != nil && added[i].extra.share != ""
		s.out.expiring = s.out.expiring || added[i].expires != 0
	}
	for _, r := range incoming {
		s.noteIncoming(r.PacketID)
	}
	c := &Changes{Owed: true}
	for _, seq := range outdone {
		switch e := s.out.get(seq); {
		case e == nil || e.state&released != 0:
		case e.state&sent != 0: // by a third engine
			s.out.release(e)
			c.Released = append(c.Released, QueueRecord{SessionID: s.id, Seq: seq, Released: true})
		default:
			c.Dequeued = append(c.Dequeued, s.abandon(e))
		}
	}
	s.put(c) // also for SentSeq
	return true
}

// insert adds messages in the order of their sequence numbers, which are free, to a queue
// without messages in flight.
func (o *outgoingQueue) insert(added []entry) {
	merged := ring[entry]{}
	add := func(e *entry) {
		merged.push(*e)
		if e.state&sent != 0 {
			o.upTo = max(o.upTo, e.seq)
		}
	}
	for e := range o.all() {
		for len(added) > 0 && added[0].seq < e.seq {
			o.charge(&added[0])
			o.added(&added[0])
			add(&added[0])
			added = added[1:]
		}
		add(e)
	}
	for i := range added {
		o.charge(&added[i])
		o.added(&added[i])
		add(&added[i])
	}
	o.kept = merged
	o.rewind()
}

// close lets sequence numbers continue behind the newest message, from floor on.
func (o *outgoingQueue) close(floor uint64) {
	o.tail = max(floor, o.upTo+1)
	if n := o.kept.len(); n > 0 {
		o.tail = max(o.tail, o.kept.at(n-1).seq+1)
	}
	o.rewind()
}

// Append queues messages that another engine had queued for a session behind all others,
// except those that are queued here already or that the client has confirmed, and waits
// until they are stored.
func (e *Engine) Append(clientID string, queue []QueueRecord) error {
	return e.appendQueue(clientID, queue, false)
}

// Inherit is Append for messages of another session of the client that the caller knows this one has not received.
func (e *Engine) Inherit(clientID string, queue []QueueRecord) error {
	return e.appendQueue(clientID, queue, true)
}

func (e *Engine) appendQueue(clientID string, queue []QueueRecord, inherited bool) error {
	s := e.session(clientID)
	if s == nil {
		return ErrNoClient
	}
	var outcomes []chan error
	var touched []*Conn
	for _, r := range s.missing(queue) {
		pub := e.newPublication()
		done := make(chan error, 1)
		pub.done = done
		o := outgoingMessage{message: r.Message, extra: newExtra(r.SubscriptionIDs, r.Share), qos: r.QoS, retain: r.Retain, unbounded: true, uncharged: true, earlier: true, inherited: inherited}
		e.enqueue(s, o, pub, &touched)
		if pub.storeAny() {
			outcomes = append(outcomes, done)
		}
	}
	for _, c := range touched {
		c.flush()
	}
	for _, done := range outcomes {
		if err := <-done; err != nil {
			return fmt.Errorf("store what waited for a session at another node: %w", err)
		}
	}
	return nil
}

// missing returns the messages that the session does not have.
func (s *Session) missing(queue []QueueRecord) (found []QueueRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.messageKeys()
	for _, r := range queue {
		if e := entryOf(r, 0); !r.Released && known.add(&e) {
			found = append(found, r)
		}
	}
	return found
}
