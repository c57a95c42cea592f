package replicas

import "signalbox/broker/embedded/engine"

// split is the changes of sessions by the nodes that have their replicas. Retained messages have none.
type split struct {
	nodeOf func(sessionID uint64) int // 0 for none
	parts  []part                     // few: there is one for each node concerned
}

type part struct {
	node    int
	changes *engine.Changes
}

// of returns the part of a session, nil if it has no replica.
func (s *split) of(sessionID uint64) *engine.Changes {
	node := s.nodeOf(sessionID)
	if node == 0 {
		return nil
	}
	for i := range s.parts {
		if s.parts[i].node == node {
			return s.parts[i].changes
		}
	}
	c := &engine.Changes{}
	s.parts = append(s.parts, part{node, c})
	return c
}

// add adds changes to the parts.
func (s *split) add(c *engine.Changes) {
	distribute(s, c.PutSessions, func(r *engine.SessionRecord) uint64 { return r.ID }, func(p *engine.Changes) *[]engine.SessionRecord { return &p.PutSessions })
	distribute(s, c.Subscribed, subscriptionOf, func(p *engine.Changes) *[]engine.SubscriptionRecord { return &p.Subscribed })
	distribute(s, c.Unsubscribed, subscriptionOf, func(p *engine.Changes) *[]engine.SubscriptionRecord { return &p.Unsubscribed })
	distribute(s, c.Enqueued, queuedOf, func(p *engine.Changes) *[]engine.QueueRecord { return &p.Enqueued })
	distribute(s, c.Released, queuedOf, func(p *engine.Changes) *[]engine.QueueRecord { return &p.Released })
	distribute(s, c.Received, incomingOf, func(p *engine.Changes) *[]engine.IncomingRecord { return &p.Received })
	distribute(s, c.Dequeued, queuedOf, func(p *engine.Changes) *[]engine.QueueRecord { return &p.Dequeued })
	distribute(s, c.Forgotten, incomingOf, func(p *engine.Changes) *[]engine.IncomingRecord { return &p.Forgotten })
	distribute(s, c.EndedSessions, func(id *uint64) uint64 { return *id }, func(p *engine.Changes) *[]uint64 { return &p.EndedSessions })
}

func subscriptionOf(r *engine.SubscriptionRecord) uint64 { return r.SessionID }
func queuedOf(r *engine.QueueRecord) uint64              { return r.SessionID }
func incomingOf(r *engine.IncomingRecord) uint64         { return r.SessionID }

// distribute appends records to the parts of their sessions.
func distribute[T any](s *split, records []T, sessionOf func(*T) uint64, list func(*engine.Changes) *[]T) {
	for i := range records {
		if p := s.of(sessionOf(&records[i])); p != nil {
			l := list(p)
			*l = append(*l, records[i])
		}
	}
}
