package mesh

import (
	"maps"
	"slices"
)

// Figures are the counters of the links between this node and another one, since that became a
// peer.
type Figures struct {
	Node   int
	Linked bool // messages can be sent to it

	Routes                   int   // filters with subscriptions at the other node
	RoutesKnown              bool  // the whole table was received, at present or before this node started
	Sent, Received           int64 // messages
	SentBytes, ReceivedBytes int64 // of all frames
	Repeated                 int64 // messages sent again after a reconnect
	Waiting, WaitingBytes    int64 // messages not yet sent or not confirmed
	Stored, StoredBytes      int64 // messages on the disk until the node has them, some of them waiting
	MaxStoredBytes           int64 // bound of StoredBytes

	Dropped   int64 // QoS 0, while there was no link or the queue was full
	Refused   int64 // above QoS 0, as the queue was full or the other node could not store them
	Abandoned int64 // above QoS 0, acknowledged although the node does not get them
}

// Figures returns the figures of all peers, in order.
func (m *Mesh) Figures() []Figures {
	m.mu.Lock()
	peers := slices.Collect(maps.Values(m.peers))
	m.mu.Unlock()
	all := make([]Figures, 0, len(peers))
	for _, p := range peers {
		all = append(all, p.figures())
	}
	slices.SortFunc(all, func(a, b Figures) int { return a.Node - b.Node })
	return all
}

func (p *peer) figures() Figures {
	l := p.link
	l.mu.Lock()
	f := l.totals
	f.Linked, f.Waiting, f.WaitingBytes = l.linked, int64(l.queue.waiting()), l.queue.bytes
	l.mu.Unlock()
	stored := l.backlog.Totals()
	f.Stored, f.StoredBytes, f.MaxStoredBytes = stored.Messages, stored.Bytes, l.mesh.maxBacklog
	f.Node, f.Routes, f.RoutesKnown = p.id, p.handle.Routes(), p.routesKnown.Load()
	f.Received, f.ReceivedBytes = p.receiver.messages.Load(), p.receiver.bytes.Load()
	return f
}
