package mesh

import (
	"maps"
	"slices"
)

// Figures tell of the links between this node and another one, in totals since
// the other node became known.
type Figures struct {
	Node   int
	Linked bool // messages can be sent to it

	Routes                   int   // filters that somebody is subscribed to there
	Known                    bool  // it has told its routes since this node was started
	Sent, Received           int64 // messages
	SentBytes, ReceivedBytes int64 // all in all
	Repeated                 int64 // messages sent again after a link broke
	Waiting, WaitingBytes    int64 // messages to be sent or confirmed, now

	Dropped int64 // messages of QoS 0 while there was no link or no room
	Refused int64 // above QoS 0, for which there was no room or that could not be stored there
	GivenUp int64 // above QoS 0, acknowledged though the node was gone
}

// Figures gives those of all other nodes, in order.
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
	f.Node, f.Routes, f.Known = p.id, p.handle.Routes(), p.known.Load()
	f.Received, f.ReceivedBytes = p.intake.messages.Load(), p.intake.bytes.Load()
	return f
}
