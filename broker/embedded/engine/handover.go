package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"signalbox/broker/mqtt/packet"
)

// Handover is a session that another engine takes over. Until Keep or End its client is
// away, and its Will and expiry are not due.
type Handover struct{ session *Session }

// Yield ends the connection that has the session of a client id, and returns the session.
// With Clean Start it ends the session, and returns ErrNoClient. A connection that is later
// than the claim stays (ErrLater), and so does another user's session (ErrForeign). Without
// a session it returns ErrNoClient.
func (e *Engine) Yield(ctx context.Context, c Claim) (*Handover, error) {
	for {
		s := e.session(c.ClientID)
		if s == nil {
			return nil, ErrNoClient
		}
		holder, given, err := s.prepareHandover(c)
		switch {
		case err != nil:
			return nil, err
		case given:
			return &Handover{s}, nil
		case holder == nil: // it has Clean Start, or has just ended
			e.end(s)
		case holder.timestamp > c.Timestamp:
			return nil, ErrLater
		default:
			holder.end(packet.ReasonSessionTakenOver, false)
			select {
			case <-holder.done:
			case <-ctx.Done():
				return nil, fmt.Errorf("wait for the client's connection to end: %w", context.Cause(ctx))
			}
		}
	}
}

// prepareHandover begins the handover of a session whose client is away, or returns the
// connection that has the session. One that the client does not know of, and that has nothing, ends. The Will is dropped if the client has returned, though to
// another engine [MQTT-3.1.3-9]. ErrForeign: it is the session of another user who has not left.
func (s *Session) prepareHandover(c Claim) (holder *Conn, given bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.username != c.Username || s.anonymous != c.Anonymous) && (s.conn == nil || !s.conn.isClosed()) {
		return nil, false, ErrForeign
	}
	if s.conn != nil || s.ended || c.CleanStart || s.transfer.untold && !c.KeepWill && s.isBlank() {
		return s.conn, false, nil
	}
	s.transfer.moving = true
	if !c.KeepWill || c.Timestamp > s.latest() {
		s.cancelWill()
	}
	return nil, true, nil
}

// cancelWill drops the Will, if there is one. mu is held.
func (s *Session) cancelWill() {
	if s.will.record != nil {
		s.dropWill()
		s.put(&Changes{Owed: true})
	}
}

// State returns the session without its queue. next is the sequence number that its next
// message would have.
func (h *Handover) State() (state StoredSession, next uint64) {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	state.SessionRecord = s.record()
	for filter, o := range s.subscribed.options {
		state.Subscriptions = append(state.Subscriptions, SubscriptionRecord{Filter: filter, Options: optionsByte(o), ID: o.ID})
	}
	return state, s.out.tail
}

// Ownership returns the Ownership of the session.
func (h *Handover) Ownership() Ownership { return h.session.ownership() }

// latest returns the timestamp of the latest CONNECT of the session, derived from the time
// if that was before a restart. mu is held.
func (s *Session) latest() uint64 {
	if s.client.timestamp != 0 {
		return s.client.timestamp
	}
	return uint64(s.client.connectedAt) * uint64(time.Millisecond/time.Microsecond)
}

// answersEvery is how often AwaitAnswers checks for unanswered packet identifiers.
const answersEvery = 2 * time.Millisecond

// AwaitAnswers waits until the messages of QoS 2 that the client has sent are answered, because it is
// not known before whether they can be stored. The client sends those again that are not.
func (h *Handover) AwaitAnswers(ctx context.Context) error {
	tick := time.NewTicker(answersEvery)
	defer tick.Stop()
	for {
		if _, owed := h.session.answeredIDs(); !owed {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("messages of the client are not answered yet: %w", context.Cause(ctx))
		}
	}
}

// Freeze stops messages from reaching the session, and returns the packet identifiers of
// QoS 2 that its client has sent and not released. AwaitAnswers comes first. It drops the Will: the
// other engine has stored that of the state.
func (h *Handover) Freeze(ctx context.Context) (incoming []uint16) {
	s := h.session
	s.mu.Lock()
	s.transfer.left = s.engine.received.event()
	for filter, o := range s.subscribed.options {
		s.removeFromIndex(filter)
		s.announceLeft(filter, o)
	}
	s.subscribed.announced = announcedTo{}
	s.cancelWill()
	s.mu.Unlock()
	s.engine.AwaitRouted(ctx) //nolint:errcheck // End notices messages that come later
	incoming, _ = s.answeredIDs()
	return incoming
}

// answeredIDs returns the packet identifiers of QoS 2 messages that were answered, and
// reports whether there are others.
func (s *Session) answeredIDs() (ids []uint16, owed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.incoming.ids {
		if p == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, len(ids) < len(s.incoming.ids)
}

// Queue returns queued messages behind a sequence number, in order, of about size bytes
// together but at least one if there is any, and reports whether there are more. Those up to
// SentSeq of the state were sent.
func (h *Handover) Queue(after uint64, size int) (part []QueueRecord, more bool, err error) {
	part, more = h.queued(after, size)
	part, err = h.session.complete(part)
	return part, more, err
}

// queued is Queue, with stubs for messages that are in the store only.
func (h *Handover) queued(after uint64, size int) (part []QueueRecord, more bool) {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.out.from(after + 1) {
		if size <= 0 {
			return part, true
		}
		r := e.record(0)
		r.Stub = e.stub()
		part = append(part, r)
		size -= recordOverhead + int(e.size)
	}
	return part, false
}

// Unsent returns the number of queued messages above QoS 0, 0 for a session that has ended.
func (h *Handover) Unsent() (messages int) {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	if h.session.ended { // its queue is about to be released
		return 0
	}
	for e := range h.session.out.from(0) {
		if e.qos > 0 {
			messages++
		}
	}
	return messages
}

// recordOverhead is counted for a message in addition to its size, in bytes.
const recordOverhead = 100

// from returns the messages from a sequence number on that are not done.
func (o *outgoingQueue) from(seq uint64) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := o.search(seq); i < o.kept.len(); i++ {
			if e := o.kept.at(i); e.state&done == 0 && !yield(e) {
				return
			}
		}
	}
}

// End ends the session here without its Will, after another engine has it with the messages up to
// a sequence number. If there are later messages it returns false: the session stays, with these
// only.
func (h *Handover) End(upTo uint64) bool {
	s := h.session
	s.mu.Lock()
	if s.conn != nil { // Keep was called, and the client is back
		s.mu.Unlock()
		return true
	}
	for range s.out.from(upTo + 1) {
		s.deleteMoved(upTo)
		s.mu.Unlock()
		return false
	}
	s.out.shares = false // messages of shared subscriptions have moved with the session
	s.dropWill()
	ended := s.conclude()
	s.mu.Unlock()
	ended.complete()
	return true
}

// deleteMoved deletes the messages up to a sequence number, and the packet identifiers that were
// answered: another engine has them. mu is held.
func (s *Session) deleteMoved(upTo uint64) {
	c := &Changes{Owed: true}
	for s.out.kept.len() > 0 && s.out.head() <= upTo {
		c.Dequeued = append(c.Dequeued, s.abandon(s.out.kept.at(0)))
	}
	s.forgetIncoming(c)
}

// forgetIncoming deletes the packet identifiers of QoS 2 messages that were answered, and submits
// that with other changes. mu is held.
func (s *Session) forgetIncoming(c *Changes) {
	for id, p := range s.incoming.ids {
		if p == nil {
			delete(s.incoming.ids, id)
			c.Forgotten = append(c.Forgotten, IncomingRecord{SessionID: s.id, PacketID: id})
		}
	}
	s.recharge()
	if s.stored && len(c.Dequeued)+len(c.Forgotten) > 0 {
		s.generation.submit(c)
	}
}

// AllowExpiry lets the expiry of a frozen session be due.
func (h *Handover) AllowExpiry() {
	h.session.mu.Lock()
	h.session.transfer.moving = false
	h.session.mu.Unlock()
	h.session.engine.schedule(h.session)
}

// Keep ends the handover: the session stays here, with its client away.
func (h *Handover) Keep() {
	s := h.session
	s.mu.Lock()
	s.transfer.moving = false
	for filter, o := range s.subscribed.options { // none if the session has ended
		s.addToIndex(filter, o)
	}
	if s.transfer.left != 0 { // what was published while it was frozen has not reached it
		s.transfer.arrived, s.transfer.left = s.engine.received.event(), 0
	}
	s.announcePresence()
	s.mu.Unlock()
	s.engine.schedule(s)
}

// Ownership is what engines compare of a session.
type Ownership struct {
	ClientID   string
	Username   string
	Anonymous  bool
	Connected  bool
	HasWill    bool   // it has a Will that is not due yet; not known of other engines
	CleanStart bool   // it began with Clean Start
	CreatedAt  int64  // distinguishes sessions of one client id
	Timestamp  uint64 // of the latest CONNECT; 1 if the client is away and may not know of the session
}

// Ownerships returns up to count sessions behind a client id, in order of client ids.
func (e *Engine) Ownerships(after string, count int) []Ownership {
	e.mu.Lock()
	snapshot := e.ordered.Copy()
	e.mu.Unlock()
	var found []Ownership
	snapshot.Ascend(&Session{clientID: after}, func(s *Session) bool {
		if s.clientID != after {
			found = append(found, s.ownership())
		}
		return len(found) < count
	})
	return found
}

// Ownership returns the Ownership of the session of a client id.
func (e *Engine) Ownership(clientID string) (Ownership, error) {
	s := e.session(clientID)
	if s == nil {
		return Ownership{}, ErrNoClient
	}
	return s.ownership(), nil
}

func (s *Session) ownership() Ownership {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Ownership{
		ClientID: s.clientID, Username: s.username, Anonymous: s.anonymous,
		Connected: s.conn != nil, HasWill: s.will.record != nil, CleanStart: s.client.clean,
		CreatedAt: s.created, Timestamp: s.latest(),
	}
	if s.transfer.untold && s.conn == nil {
		o.Timestamp = 1 // before any session that the client knows of
	}
	return o
}
