package engine

import "signalbox/broker/mqtt/packet"

// outgoingMessage is a message for a session, according to its subscriptions.
type outgoingMessage struct {
	message *Message
	extra   *extra
	qos     byte // of delivery
	retain  bool

	unbounded bool // accepted even above the bounds of the queue
	uncharged bool // accepted even above the quota of stored messages
	earlier   bool // not published just now: it was retained, or waited in another session
	inherited bool // of another session: it is known that this one has not received it
}

// acceptance is the outcome of accept.
type acceptance struct {
	flush *Conn  // the connection that the caller must flush; nil for none
	seq   uint64 // sequence number of a message that must be stored first; 0 for none
	over  bool   // refused because of a quota
}

// accept queues a message, unless the session has ended or a bound is reached.
func (s *Session) accept(o outgoingMessage) acceptance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return acceptance{}
	}
	if o.qos == 0 {
		return acceptance{flush: s.acceptQoS0(o)}
	}
	if s.conn == nil && !s.keeps() || s.isDuplicate(o) || s.hasReceived(o) || s.overfull(o) {
		return acceptance{}
	}
	s.transfer.direct.add(&o)
	e := newEntry(o.message, o.extra, o.qos, o.retain)
	if s.stored && !s.charge(&e, o.uncharged) {
		return acceptance{over: true}
	}
	s.watchFor(&e)
	s.out.expiring = s.out.expiring || o.message.ExpiresAt != 0
	s.out.shares = s.out.shares || o.extra != nil && o.extra.share != ""
	if s.stored {
		return acceptance{seq: s.out.push(&e)}
	}
	e.state = committed
	s.out.push(&e)
	return acceptance{flush: s.conn}
}

// isDuplicate reports whether a message has come to the session with it, or during a watch. mu is held.
func (s *Session) isDuplicate(o outgoingMessage) bool {
	return s.transfer.keys != nil && s.transfer.keys.has(messageKeyOf(o.message.Stamp, o.extra, o.retain))
}

// watchFor remembers a message during a watch. mu is held.
func (s *Session) watchFor(e *entry) {
	if s.transfer.watches > 0 && len(s.transfer.keys) < maxWatched {
		s.transfer.keys.add(e)
	}
}

// maxWatched bounds the messages that a session remembers during a watch.
const maxWatched = 64 << 10

// WatchDuplicates makes the session of a client id drop messages that come to it both by Append and over a link,
// in either order, until done is called.
func (e *Engine) WatchDuplicates(clientID string) (done func()) {
	s := e.session(clientID)
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.transfer.keys == nil {
		s.transfer.keys = messageKeys{}
	}
	s.transfer.adoptions++
	s.transfer.watches++
	return func() {
		s.mu.Lock()
		s.transfer.watches--
		s.mu.Unlock()
		(&Adoption{session: s}).Close()
	}
}

// queued returns an accepted message as the store has it.
func (s *Session) queued(o *outgoingMessage, seq uint64) QueueRecord {
	r := QueueRecord{SessionID: s.id, Seq: seq, Message: o.message, QoS: o.qos, Retain: o.retain}
	if o.extra != nil {
		r.SubscriptionIDs, r.Share = o.extra.ids, o.extra.share
	}
	return r
}

// charge charges a message that is about to be stored, unless a quota forbids it. mu is held.
func (s *Session) charge(e *entry, always bool) bool {
	if always {
		s.out.charge(e)
		return true
	}
	what := s.out.take(e)
	if what == quotaReasons {
		return true
	}
	s.drop(DropQuota, 1)
	s.engine.refused(what, s.clientID, s.username)
	return false
}

// acceptQoS0 queues a message of QoS 0 if the client is connected.
func (s *Session) acceptQoS0(o outgoingMessage) *Conn {
	if s.conn == nil || s.overfull(o) {
		return nil
	}
	s.out.qos0.push(qos0Message{message: o.message, extra: o.extra, after: s.out.tail - 1, retain: o.retain})
	s.out.bytes += int64(o.message.size())
	return s.conn
}

// overfull reports whether the queue is full, and counts the message as dropped if so.
func (s *Session) overfull(o outgoingMessage) bool {
	c := &s.engine.config
	unbounded := s.engine.isUnbounded(s.owner())
	if o.unbounded || unbounded && o.qos > 0 || s.out.waiting() < c.MaxQueuedMessages && s.out.bytes+int64(o.message.size()) <= c.MaxQueuedBytes {
		return false
	}
	s.drop(DropQueueFull, 1)
	if c.DisconnectSlow && s.conn != nil && !unbounded {
		s.conn.endAsync(packet.ReasonQuotaExceeded)
	}
	return true
}

// drop counts messages that the client does not get.
func (s *Session) drop(why DropReason, n int) {
	if n > 0 {
		s.counts.dropped[why].Add(int64(n))
		s.engine.meters.drop(why, n)
	}
}

// messageCommitted handles the outcome of storing a message: it may be sent now, or is
// dropped. It returns the connection to be flushed, and reports whether the session has ended,
// so that the message must be deleted from the store.
func (s *Session) messageCommitted(seq uint64, stored bool) (flush *Conn, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.out.get(seq)
	if e == nil {
		return nil, stored && s.ended
	}
	if !stored {
		s.out.finish(e)
		s.drop(DropNotStored, 1)
		return nil, false
	}
	e.state |= committed
	s.noteStored(e)
	return s.conn, s.ended
}
