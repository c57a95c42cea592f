package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// The roles of a node in the consensus.
const (
	RoleStandby = 0 // receives the log and has no vote
	RoleVoter   = 1
	RoleSpare   = 2 // has not joined yet
)

// The states of a node.
const (
	StateUnavailable = 0
	StateFollower    = 1
	StateCandidate   = 2
	StateLeader      = 3
)

// Info describes a cluster as a node knows it.
type Info struct {
	Name     string
	UUID     string
	SyncMode string
	Format   int // of what is replicated
	Self     NodeID
	Leader   NodeID // 0 while there is none
	Nodes    []Member
	Warning  string // what an operator should know about a cluster of so few nodes, or ""
	Shared   bool   // the cluster has a Shared, as far as this node knows
}

// Info returns the Info of the node's cluster, ErrNotClustered at rest.
func (n *Node) Info() (Info, error) {
	s, err := n.running()
	if err != nil {
		return Info{}, err
	}
	known := s.fsm.state.Load()
	m, _ := s.leader()
	info := Info{
		Name: known.Name, UUID: s.credentials.uuid, SyncMode: known.SyncMode, Format: keyedFormat,
		Self: s.id.Self.NodeID, Leader: m.NodeID, Nodes: slices.Clone(known.Members), Shared: known.Shared || s.id.Shared,
	}
	if info.Shared {
		info.Format = sharedFormat
	}
	if known.Index == 0 {
		info.Nodes = slices.Clone(s.id.Known)
	}
	info.Warning = warning(len(info.Nodes))
	return info, nil
}

// Leader returns the leader, as far as this node knows. It returns false if there is none.
func (n *Node) Leader() (NodeID, bool) {
	s := n.membership.Load()
	if s == nil {
		return 0, false
	}
	m, ok := s.leader()
	return m.NodeID, ok
}

// IsLeader reports whether this node leads, as far as it knows. Lead verifies it.
func (n *Node) IsLeader() bool {
	s := n.membership.Load()
	return s != nil && s.raft.State() == raft.Leader
}

// Status is the state of the consensus as one node knows it.
type Status struct {
	Nodes       []NodeStatus
	State       int // one of StateUnavailable to StateLeader
	CommitIndex uint64
	LastApplied uint64
	LastStored  uint64
	Term        uint64
	SyncMode    string
	ErrMsg      string // why this node or another one does not take part; of a leader also that one more loss would stop the cluster
	Warning     string // of a leader: what does not keep nodes from working, and should not remain
}

// NodeStatus is a member in the consensus. Only a leader knows of contacts.
type NodeStatus struct {
	Member
	Role        int           // one of RoleStandby to RoleSpare
	Version     string        // of its program, "" if not known
	LastApplied uint64        // in its last answer
	LastContact time.Duration // since its last answer, 0 if there was none
	Skew        time.Duration // by how much its time of day is at least ahead of the leader's
	Err         error         // why it does not answer, or must not be let in
}

// Status returns the state of the consensus. It does not block.
func (n *Node) Status() Status {
	s, err := n.running()
	if err != nil {
		return Status{ErrMsg: err.Error()}
	}
	known := s.fsm.state.Load()
	st := Status{
		State: s.state(), SyncMode: known.SyncMode, Term: s.raft.CurrentTerm(),
		CommitIndex: s.raft.CommitIndex(), LastApplied: s.fsm.appliedIndex(), LastStored: s.raft.LastIndex(),
	}
	heard, leads := s.contactsByRef(), st.State == StateLeader
	for _, m := range known.Members {
		ns := NodeStatus{Member: m, Role: s.role(m)}
		if c, ok := heard[m.ref()]; ok && leads {
			ns.Version, ns.LastApplied, ns.Skew, ns.Err = c.Version, c.Applied, c.skew, c.err
			if c.err == nil {
				ns.Err = known.cannotShare(c.peerStatus)
			}
			ns.LastContact = since(time.Now(), c.at)
		}
		if m.NodeID == s.id.Self.NodeID {
			ns.Version, ns.LastApplied = n.options.Version, st.LastApplied
		}
		st.Nodes = append(st.Nodes, ns)
	}
	st.ErrMsg = s.errMsg()
	if leads {
		st.Warning = inOneLine(s.warning(heard))
	}
	return st
}

// errMsg returns why this node does not work, or "".
func (s *membership) errMsg() string {
	if stop := s.fsm.applyError.Load(); stop != nil {
		return stop.Err.Error()
	}
	if _, ok := s.leader(); !ok {
		if s.fsm.state.Load().Index == 0 {
			return ErrWaiting.Error()
		}
		return s.noLeader().Error()
	}
	err := s.node.Healthy()
	if s.raft.State() == raft.Leader {
		err = errors.Join(err, s.oneMoreLoss())
	}
	return inOneLine(err)
}

// inOneLine returns the text of joined errors, "" for none.
func inOneLine(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return strings.ReplaceAll(text, "\n", "; ")
}

// noLeader is an ErrNoLeader that names the nodes that do not answer.
func (s *membership) noLeader() error {
	var away []string
	heard := s.contactsByRef()
	for _, m := range s.others() {
		if heard[m.ref()].err != nil {
			away = append(away, strconv.Itoa(int(m.NodeID)))
		}
	}
	if len(away) == 0 {
		return ErrNoLeader
	}
	return fmt.Errorf("%w: of its %d nodes, %s cannot be reached from here", ErrNoLeader, len(s.others())+1, strings.Join(away, ", "))
}

func (s *membership) state() int {
	switch s.raft.State() {
	case raft.Follower:
		return StateFollower
	case raft.Candidate:
		return StateCandidate
	case raft.Leader:
		return StateLeader
	}
	return StateUnavailable
}

// role returns the role of a member.
func (s *membership) role(m Member) int {
	for _, server := range s.servers() {
		if string(server.ID) != m.ref().String() {
			continue
		}
		if server.Suffrage == raft.Voter {
			return RoleVoter
		}
		return RoleStandby
	}
	return RoleSpare
}
