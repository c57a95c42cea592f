package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"signalbox/broker/mqtt/packet"
)

// Handover is a session that another engine takes over. Its client is away, and
// nothing is due for it, until Keep or Part.
type Handover struct{ session *Session }

// Yield ends the connection that has the session of a client id, unless it
// came later than the claim (ErrLater), and returns the session; with Clean Start it
// ends it. Another user's session stays what it is (ErrForeign). Where there is
// none, or none is left, it returns ErrNoClient.
func (e *Engine) Yield(ctx context.Context, c Claim) (*Handover, error) {
	for {
		s := e.session(c.ClientID)
		if s == nil {
			return nil, ErrNoClient
		}
		if s.username != c.Username || s.anonymous != c.Anonymous {
			return nil, ErrForeign
		}
		holder, given := s.prepareHandover(c)
		switch {
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

// prepareHandover readies a session whose client is away for another engine. Its client is
// back, though elsewhere, so that its Will is void [MQTT-3.1.3-9].
func (s *Session) prepareHandover(c Claim) (holder *Conn, given bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil || s.ended || c.CleanStart {
		return s.conn, false
	}
	s.transfer.moving = true
	if s.will.record != nil {
		s.dropWill()
		s.put(&Changes{Owed: true})
	}
	return nil, true
}

// State is the session without what waits for it. Next is the sequence number
// that its next message would have.
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

// Timestamp is the place of the CONNECT that had the session last.
func (h *Handover) Timestamp() uint64 {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	return h.session.latest()
}

// latest is the place of the CONNECT that had the session last, by the clock
// where that was before a restart. mu is held.
func (s *Session) latest() uint64 {
	if s.client.timestamp != 0 {
		return s.client.timestamp
	}
	return uint64(s.client.connectedAt) * uint64(time.Millisecond/time.Microsecond)
}

// answersEvery is how often Freeze looks whether answers are still owed.
const answersEvery = 2 * time.Millisecond

// Freeze keeps messages from now on away from the session, and returns the packet
// identifiers of QoS 2 that its client has sent and not released. It waits for
// those that are not answered yet: while it is not known whether their messages
// can be stored, they are nobody's.
func (h *Handover) Freeze(ctx context.Context) (incoming []uint16) {
	s := h.session
	s.mu.Lock()
	for filter, o := range s.subscribed.options {
		s.delist(filter)
		s.announceLeft(filter, o)
	}
	s.subscribed.announced = announcedTo{}
	s.mu.Unlock()
	s.engine.AwaitRouted(ctx) //nolint:errcheck // then what is late is left to Part
	tick := time.NewTicker(answersEvery)
	defer tick.Stop()
	for {
		incoming, owed := s.answeredIDs()
		if !owed || ctx.Err() != nil {
			return incoming
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// answeredIDs returns the packet identifiers of QoS 2 messages that are answered,
// and reports whether there are others.
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

// Queue returns messages that wait behind a sequence number, in order, about as
// many as have a size, but one at least if there is any; and whether there are
// more. Those up to SentSeq of the state were sent before.
func (h *Handover) Queue(after uint64, size int) (part []QueueRecord, more bool, err error) {
	part, more = h.queued(after, size)
	part, err = h.session.complete(part)
	return part, more, err
}

// queued is Queue without the messages that are in the store only.
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

// Unsent is how many messages above QoS 0 wait for the session.
func (h *Handover) Unsent() (messages int) {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	for e := range h.session.out.from(0) {
		if e.qos > 0 {
			messages++
		}
	}
	return messages
}

// recordOverhead is what a message is counted for beside its size, in bytes.
const recordOverhead = 100

// from returns the messages from a sequence number on that are not done with.
func (o *outgoingQueue) from(seq uint64) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := o.search(seq); i < o.kept.len(); i++ {
			if e := o.kept.at(i); e.state&done == 0 && !yield(e) {
				return
			}
		}
	}
}

// End ends the session here: another engine has it, with what waited up to a
// sequence number. It returns false, and ends nothing, if more has come since.
func (h *Handover) End(upTo uint64) bool {
	s := h.session
	s.mu.Lock()
	for range s.out.from(upTo + 1) {
		s.mu.Unlock()
		return false
	}
	if s.conn != nil { // it was kept after all
		s.mu.Unlock()
		return true
	}
	s.out.shares = false // what waits by shared subscriptions has moved with it
	ended := s.conclude()
	s.mu.Unlock()
	ended.complete()
	return true
}

// Keep leaves the session here, as one whose client is away.
func (h *Handover) Keep() {
	s := h.session
	s.mu.Lock()
	s.transfer.moving = false
	for filter, o := range s.subscribed.options { // none where it has ended
		s.enlist(filter, o)
	}
	s.announcePresence()
	s.mu.Unlock()
	s.engine.schedule(s)
}

// Ownership is a session as engines compare them.
type Ownership struct {
	ClientID  string
	Username  string
	Anonymous bool
	Connected bool
	CreatedAt int64  // which distinguishes sessions of one client id
	Timestamp uint64 // of the CONNECT that had it last
}

// Ownerships returns sessions behind a client id, in order of client ids.
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

// Ownership returns the session of a client id.
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
	return Ownership{
		ClientID: s.clientID, Username: s.username, Anonymous: s.anonymous,
		Connected: s.conn != nil, CreatedAt: s.created, Timestamp: s.latest(),
	}
}
