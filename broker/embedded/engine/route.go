package engine

import (
	"strings"

	"signalbox/broker/mqtt/topics"
)

// route is what a connection caches of a topic to which it publishes. It is valid as long as
// the epoch of rights and the generation of the index do not change.
type route struct {
	topic           string
	epoch           uint64 // of rights
	indexGeneration uint64 // of the indexes of subscriptions and taps
	allowed         bool
	matches         *topics.Matches[*Session]
	to              []recipient
	peers           []peerTarget // subscribed peers
	taps            *topics.Matches[*openTap]
}

// refresh brings a route up to date with subscriptions and rights. It reads epoch and
// generation first, so that the route is out of date if they change meanwhile.
func (e *Engine) refresh(r *route, rights Rights) {
	epoch, generation := e.authority.Epoch(), e.index.Generation()+e.taps.Generation()
	if r.matches != nil && r.epoch == epoch && r.indexGeneration == generation {
		return
	}
	matches := e.index.Match(r.topic)
	r.taps = e.taps.Match(r.topic)
	if matches == r.matches && r.epoch == epoch {
		r.indexGeneration = generation // other clients' subscriptions changed
		return
	}
	r.epoch, r.indexGeneration, r.matches = epoch, generation, matches
	r.allowed = rights == nil || rights.Allowed(Send, r.topic) && (!reserved(r.topic) || maySendReserved(rights, r.topic))
	r.to, r.peers = r.to[:0], r.peers[:0]
	for i := range r.matches.Subscribers {
		switch s := &r.matches.Subscribers[i]; {
		case s.Who.peer != nil:
			r.peers = append(r.peers, newPeerTarget(s.Who, s.QoS))
		case s.Who.isAllowed(Receive, r.topic):
			r.to = append(r.to, newRecipient(s))
		}
	}
}

// reserved reports whether only the broker publishes to a topic.
func reserved(topic string) bool {
	level, _, _ := strings.Cut(topic, "/")
	return level == "$SYS" || level == "$share"
}

// ReservedRights are Rights of a client that is part of the broker.
type ReservedRights interface {
	Rights
	// AllowedReserved reports whether the client may publish to a topic to which no other one may.
	AllowedReserved(topic string) bool
}

func maySendReserved(rights Rights, topic string) bool {
	r, ok := rights.(ReservedRights)
	return ok && r.AllowedReserved(topic)
}

// isAllowed reports whether the session's client has a right.
func (s *Session) isAllowed(k Kind, topic string) bool {
	if s.peer != nil {
		return true // the other node checks the rights of its clients
	}
	s.mu.Lock()
	rights := s.rights
	s.mu.Unlock()
	return rights != nil && rights.Allowed(k, topic)
}

// recipient is a subscriber of a topic that has the right to receive its messages.
type recipient struct {
	session *Session
	terms   topics.Terms
	extra   *extra
	own     topics.Terms // for messages that the recipient published
	toOwn   bool         // the recipient gets its own messages
}

func newRecipient(s *topics.Subscriber[*Session]) recipient {
	r := recipient{session: s.Who, terms: s.Terms, extra: newExtra(s.IDs, "")}
	r.own, r.toOwn = s.Own()
	return r
}

func newExtra(ids []uint32, share string) *extra {
	if len(ids) == 0 && share == "" {
		return nil
	}
	return &extra{ids: ids, share: share}
}

// Bounds of the routes that a connection caches: their number, and their size without the
// latest. Beyond them the cache is emptied.
const (
	maxKnown      = 256
	maxKnownBytes = 64 << 10 // bytes

	recipientBytes = 88 // of a recipient
)

// remember caches a route.
func (c *Conn) remember(r *route) {
	if c.in.known == nil || len(c.in.known) >= maxKnown || c.in.knownBytes > maxKnownBytes {
		c.in.known, c.in.knownBytes = map[string]*route{}, 0
	}
	c.in.known[r.topic] = r
	c.in.knownBytes += len(r.topic) + recipientBytes*cap(r.to)
}
