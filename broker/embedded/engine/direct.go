package engine

import "maps"

// directMessages is what a session has received since it began that an older session of its client,
// at a node that is away, may also be sent: of each topic and publishing node, the stamp of the first
// message. It has received the later ones, too.
type directMessages struct {
	first      map[directKey]uint64
	bytes      int  // of the topics
	incomplete bool // there were too many
	pending    bool // the session has come from other engines, and what it has received there is not known yet
}

type directKey struct {
	node  uint16
	topic string
}

// Bounds of the topics of a session that are remembered: their number and their bytes.
const (
	maxDirect      = 256
	maxDirectBytes = 64 << 10
)

func directKeyOf(m *Message) directKey { return directKey{uint16(m.Stamp >> 48), m.Topic} }

// add records a message that is queued for the session. d may be nil.
func (d *directMessages) add(o *outgoingMessage) {
	if d == nil || o.earlier || o.message.Stamp == 0 || o.extra != nil && o.extra.share != "" {
		return
	}
	d.addFirst(directKeyOf(o.message), o.message.Stamp)
}

// addFirst records a message that may be the first one of its topic and node.
func (d *directMessages) addFirst(k directKey, stamp uint64) {
	first, had := d.first[k]
	switch {
	case had:
		d.first[k] = min(first, stamp)
	case len(d.first) >= maxDirect || d.bytes+len(k.topic) > maxDirectBytes:
		d.incomplete = true
	default:
		d.first[k] = stamp
		d.bytes += len(k.topic)
	}
}

// known reports whether all is there that the session has received. d may be nil.
func (d *directMessages) known() bool { return d != nil && !d.incomplete && !d.pending }

// RememberDirect makes the session of a client id remember what it receives, if it has no
// subscriptions yet: an older session of its client may be at a node that is away. One that has just
// begun is not present to its client before that knows of it.
func (e *Engine) RememberDirect(clientID string) {
	s := e.session(clientID)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.subscribed.options) == 0 && s.transfer.direct == nil {
		s.transfer.direct = &directMessages{first: map[directKey]uint64{}}
	}
	if s.client.lastGone == 0 && !s.client.clean {
		s.transfer.untold = true
	}
}

// isUntold reports whether the client may not know that the session began, since it has sent nothing after
// the CONNACK that told it so. It may keep an older session, which a node has that was away. To such a
// client no session is present [MQTT-3.2.2-2], and the older one counts as the one that it was connected with last.
func (s *Session) isUntold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transfer.untold
}

// noteTold records that the client knows of the session.
func (s *Session) noteTold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transfer.untold = false
}

// isBlank reports whether nothing is lost if the session ends now. mu is held.
func (s *Session) isBlank() bool {
	return len(s.subscribed.options) == 0 && s.out.kept.len() == 0 && s.will.record == nil
}

// DirectMessage is the first message of a topic and a publishing node that a session has received
// since it began.
type DirectMessage struct {
	Node  uint16
	Topic string
	Stamp uint64
}

// Direct returns what the session has received since it began, here and where it was before, in no order; false
// if that is not known. The session must be frozen.
func (h *Handover) Direct() (first []DirectMessage, known bool) {
	h.session.mu.Lock()
	defer h.session.mu.Unlock()
	d := h.session.transfer.direct
	if !d.known() {
		return nil, false
	}
	for k, stamp := range d.first {
		first = append(first, DirectMessage{k.node, k.topic, stamp})
	}
	return first, true
}

// AddDirect adds what the session of a client id has received at the engines that it, or a part of it, has come from
// to what it has received here. If that is not known of all of them, it is not known at all.
func (e *Engine) AddDirect(clientID string, first []DirectMessage, known bool) {
	s := e.session(clientID)
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.transfer.direct
	if !known {
		s.transfer.direct = nil
	} else if d != nil {
		d.pending = false
		for _, m := range first {
			d.addFirst(directKey{m.Node, m.Topic}, m.Stamp)
		}
	}
}

// ForgetDirect ends what RememberDirect, AddDirect and Adoption.Received began, for all sessions.
func (e *Engine) ForgetDirect() {
	e.received.brought.Store(0)
	for _, s := range e.all() {
		s.mu.Lock()
		s.transfer.direct, s.transfer.received = nil, nil
		s.mu.Unlock()
	}
}

// ReceivedDirectly returns a function that reports whether the session of a client id has received a
// message of an older session itself; nil if that is not known.
func (e *Engine) ReceivedDirectly(clientID string) (received func(r *QueueRecord) bool) {
	s := e.session(clientID)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.transfer.direct
	if !d.known() {
		return nil
	}
	first := maps.Clone(d.first)
	return func(r *QueueRecord) bool {
		stamp, had := first[directKeyOf(r.Message)]
		return had && r.Share == "" && r.Message.Stamp >= stamp
	}
}
