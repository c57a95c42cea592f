package cluster

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"signalbox/broker/embedded/cluster/raftlog"
)

// keptAcknowledged is the name of the stored position of the last entry that the node has
// acknowledged, while it does not have all entries up to it.
const nameAcknowledged = "cluster/acknowledged"

// position is the position of an entry in the log.
type position struct {
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

// reaches reports whether a log that ends at this position is at least as up-to-date as one
// that ends at p (Raft §5.4.1).
func (a position) reaches(p position) bool {
	return a.Term > p.Term || a.Term == p.Term && a.Index >= p.Index
}

var errIncomplete = errors.New("the node lacks entries that it has acknowledged, and does not stand for election until it has them again")

// dropIncomplete deletes a log that lacks entries behind the latest snapshot: earlier
// releases lost entries that way, and raft does not start with such a log. Entries that the
// node has acknowledged count for the majority that committed them, so the node must not help
// to elect a leader that lacks them. For that it stores the end of the deleted log.
func (n *Node) dropIncomplete() error {
	last, missing, err := n.store.Incomplete()
	if err != nil || !missing {
		return err
	}
	known, err := n.loadAcknowledged()
	if err != nil {
		return err
	}
	p := position{last.Index, last.Term}
	if known != nil && known.reaches(p) {
		p = *known
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	n.log.Warn("the cluster's log lacks entries behind the latest snapshot; the node receives them again from the others, and does not stand for election until then",
		"last", p.Index, "term", p.Term)
	return n.store.ClearLog(raftlog.Changes{nameAcknowledged: text})
}

// loadAcknowledged returns the position that dropIncomplete has stored, nil for none.
func (n *Node) loadAcknowledged() (*position, error) {
	text, err := n.store.Value(nameAcknowledged)
	if err != nil || text == nil {
		return nil, err
	}
	p := new(position)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("read what this node has acknowledged: %w", err)
	}
	return p, nil
}

// regained deletes the stored position once the node has the log up to it again.
func (s *membership) regained() {
	p := s.acknowledged.Load()
	if p == nil || s.raft.LastIndex() < p.Index {
		return
	}
	if err := s.node.store.Update(raftlog.Changes{nameAcknowledged: nil}); err != nil {
		s.node.log.Warn("the node has all entries again that it has acknowledged, and cannot store that", "error", err)
		return
	}
	s.acknowledged.Store(nil)
	s.node.log.Info("the node has all entries again that it has acknowledged", "last", p.Index)
}

// abstain returns the response to a request for a vote that the node must not grant, nil if
// raft decides.
func (s *membership) abstain(request any) any {
	p := s.acknowledged.Load()
	if p == nil {
		return nil
	}
	header, term := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, s.raft.CurrentTerm()
	switch r := request.(type) {
	case *raft.RequestVoteRequest:
		if !(position{r.LastLogIndex, r.LastLogTerm}).reaches(*p) {
			return &raft.RequestVoteResponse{RPCHeader: header, Term: term}
		}
	case *raft.RequestPreVoteRequest:
		if !(position{r.LastLogIndex, r.LastLogTerm}).reaches(*p) {
			return &raft.RequestPreVoteResponse{RPCHeader: header, Term: term}
		}
	}
	return nil
}

// mayBeElected returns nil if the node may be elected.
func (s *membership) mayBeElected() error {
	if s.acknowledged.Load() != nil {
		return errIncomplete
	}
	return nil
}
