package engine

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// receivedLog is which messages above QoS 0 this engine has queued lately that went to several nodes, by
// stamp, and in which order with sessions that came and left. So it shows what a session has received here:
// a node that was cut off may store the same messages for the node to which the session moves.
type receivedLog struct {
	brought atomic.Int64 // stamps that sessions have brought since ForgetDirect

	events atomic.Uint64 // numbered: the begin and the end of queueing a message, and a session's coming and leaving

	mu   sync.Mutex // guards what follows
	ring []queuedMessage
	next int // of a full ring
}

// queuedMessage is a message with the numbers of when it began to be queued, and when it was.
type queuedMessage struct{ stamp, began, ended uint64 }

// maxReceived bounds the messages that are remembered, 24 bytes each.
const maxReceived = 64 << 10

// event returns the number of an event, greater than those of all earlier ones.
func (l *receivedLog) event() uint64 { return l.events.Add(1) }

// add records that a message is queued, which began with an event.
func (l *receivedLog) add(stamp, began uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := queuedMessage{stamp, began, l.event()}
	if len(l.ring) < maxReceived {
		l.ring = append(l.ring, m)
		return
	}
	l.ring[l.next] = m
	l.next = (l.next + 1) % maxReceived
}

// between returns the messages of some nodes that were queued wholly between two events, 0 for the present one.
func (l *receivedLog) between(from, to uint64, nodes []int) (stamps []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.ring {
		if m.began > from && (to == 0 || m.ended < to) && isOf(m.stamp, nodes) {
			stamps = append(stamps, m.stamp)
		}
	}
	return stamps
}

// isOf reports whether a message was published at one of some nodes.
func isOf(stamp uint64, nodes []int) bool { return slices.Contains(nodes, int(stamp>>48)) }

// Bounds of what sessions bring along: the latest messages of one, and those of all sessions of an engine.
const (
	maxBrought    = 4 << 10
	maxBroughtAll = 1 << 20
)

// Received returns the stamps of the latest messages that were published at some nodes and that the session has
// received here, or brought along, in order. The session must be frozen.
func (h *Handover) Received(nodes []int) []uint64 {
	s := h.session
	s.mu.Lock()
	from, to := s.transfer.arrived, s.transfer.left
	brought := slices.Clone(s.transfer.received)
	s.mu.Unlock()
	stamps := s.engine.received.between(from, to, nodes)
	stamps = append(stamps, slices.DeleteFunc(brought, func(stamp uint64) bool { return !isOf(stamp, nodes) })...)
	return latest(stamps)
}

// latest returns the latest stamps, without those that are there twice, in order.
func latest(stamps []uint64) []uint64 {
	slices.SortFunc(stamps, func(a, b uint64) int { return cmp.Or(cmp.Compare(a<<16, b<<16), cmp.Compare(a, b)) }) // by time first, without the node
	stamps = slices.Compact(stamps)
	stamps = stamps[max(0, len(stamps)-maxBrought):]
	slices.Sort(stamps)
	return stamps
}

// Received makes the session drop messages that it has received at another engine, by their stamps, until
// ForgetDirect: they may come again from a node that was cut off. Beyond the bounds they come twice.
func (a *Adoption) Received(stamps []uint64) {
	s := a.session
	l := &s.engine.received
	if n := int64(len(stamps)); n == 0 || l.brought.Add(n) > maxBroughtAll {
		l.brought.Add(-n)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transfer.received = latest(append(stamps, s.transfer.received...))
}

// hasReceived reports whether the session has received a message elsewhere. mu is held.
func (s *Session) hasReceived(o outgoingMessage) bool {
	if len(s.transfer.received) == 0 || o.inherited || o.retain || o.extra != nil && o.extra.share != "" {
		return false
	}
	_, has := slices.BinarySearch(s.transfer.received, o.message.Stamp)
	return has
}
