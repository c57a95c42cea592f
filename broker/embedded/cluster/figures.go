package cluster

import (
	"sync/atomic"
	"time"

	"signalbox/broker/latency"
)

// Figures are the measurements of a node.
type Figures struct {
	Voters    int  // members with a vote; 0 at rest
	InContact int  // voters with which this node, as the leader, is in contact, itself included
	Leading   bool // this node leads; InContact is known only then

	Refused uint64 // refused connections to the cluster port since the start, of nodes that are not members

	LastContact time.Duration    // since the last contact with the leader; 0 if this node leads or had none
	Forwarded   uint64           // requests that Forward was given
	Applied     latency.Snapshot // of proposals at this node, until it had applied them
}

// applyBounds are the upper bounds of the buckets of Figures.Applied, in seconds.
var applyBounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// counters are counted since the node was opened.
type counters struct {
	forwarded atomic.Uint64
	refused   refusals
	applied   *latency.Histogram

	appendFailures atomic.Uint64 // log changes that could not be stored
}

// Figures returns the measurements.
func (n *Node) Figures() Figures {
	f := Figures{Forwarded: n.figures.forwarded.Load(), Refused: n.figures.refused.all.Load(), Applied: n.figures.applied.Snapshot()}
	s := n.membership.Load()
	if s == nil {
		return f
	}
	f.Voters = s.voters()
	if f.Leading = s.state() == StateLeader; !f.Leading {
		f.LastContact = since(time.Now(), s.raft.LastContact())
		return f
	}
	heard := s.contactsByRef()
	for _, m := range s.fsm.state.Load().Members {
		c, ok := heard[m.ref()]
		if s.role(m) == RoleVoter && (m.NodeID == s.id.Self.NodeID || ok && c.err == nil) {
			f.InContact++
		}
	}
	return f
}
