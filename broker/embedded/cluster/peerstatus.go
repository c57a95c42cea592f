package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxPromotionLag is how many entries a node may lack when it becomes a voter: it has them
// before its vote counts.
const maxPromotionLag = 64

// peerStatus is what a node reports about itself, and about the node that asks.
type peerStatus struct {
	Version string `json:"version"`
	Applied uint64 `json:"applied"`
	Held    uint64 `json:"held,omitzero"`   // index up to which it has applied all entries, of any kind; 0 in earlier releases
	Stored  uint64 `json:"stored,omitzero"` // the last entry of its log
	Leader  NodeID `json:"leader,omitzero"`
	Time    int64  `json:"time,omitzero"`    // its time of day, in epoch milliseconds; 0 in earlier releases
	Seeded  bool   `json:"seeded"`           // it has received the cluster's state
	Removed bool   `json:"removed,omitzero"` // the node that asks is no longer a member
	Warning string `json:"warning,omitempty"`
	Lacks   bool   `json:"lacks,omitzero"`    // Options.Incomplete; false in earlier releases
	Formats int    `json:"formats,omitempty"` // the highest format of the state with which it can take part; 0 in earlier releases

	Key   string         `json:"key,omitempty"`   // fingerprint of its own key; "" in earlier releases
	Known uint64         `json:"known,omitempty"` // index of the last command that its list of members includes
	Keys  map[string]pin `json:"keys,omitempty"`  // of these
}

// contact is the last report of a member.
type contact struct {
	peerStatus
	at   time.Time     // when it answered last, zero if never
	skew time.Duration // by how much its time of day was ahead then, at least
	err  error         // why it has not answered since
}

// checkPeers runs after a change and periodically. A leader brings raft's configuration in line
// with the members, one step at a time, so that the next leader can continue; a node without a
// leader asks whether it is still a member.
func (s *membership) checkPeers() {
	if s.raft.State() == raft.Leader {
		s.askAll()
		if s.raft.State() == raft.Leader && s.reconcileVoters() {
			s.notify()
		}
		return
	}
	if _, ok := s.leader(); ok || time.Since(s.raft.LastContact()) < 3*s.node.options.Timing.Election {
		s.askAgain()
		return
	}
	s.askAll()
	if s.isTrulyRemoved() {
		if err := s.depart(reasonRemoved); err != nil {
			s.node.log.Error("the node is removed, and cannot store that", "error", err)
		}
	}
}

// askAgain asks the members whose reports this node relies on, though it has a leader.
func (s *membership) askAgain() {
	known := s.fsm.state.Load()
	switch {
	case s.reliesOnOthers.Swap(false), s.reportedUpTo.Load() > known.Index:
		s.askAll()
	case known.Keys != nil:
		s.ask(s.unanswered())
	}
}

// others returns the other members. A node that has just joined has those of its invitation.
func (s *membership) others() (all []Member) {
	for _, m := range s.known().Members {
		if m.NodeID != s.id.Self.NodeID {
			all = append(all, m)
		}
	}
	return all
}

// askAll asks all other members for their status, at the same time.
func (s *membership) askAll() {
	others := s.others()
	s.ask(others)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.contacts, func(r memberRef, _ contact) bool {
		return !slices.ContainsFunc(others, func(m Member) bool { return m.ref() == r })
	})
}

// ask asks members for their status, at the same time.
func (s *membership) ask(members []Member) { s.askWith(s.askStatus, members) }

func (s *membership) askWith(ask func(context.Context, Member) (peerStatus, error), members []Member) {
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			asked := s.node.options.Now()
			st, err := ask(s.ctx, m)
			s.recordContact(m, st, skew(st.Time, asked, s.node.options.Now()), err)
		})
	}
	wg.Wait()
}

// skew returns by how much a time of day is ahead of this node's, 0 if it is not known: at least,
// because it was read at any time between a request and its response.
func skew(millis int64, asked, answered time.Time) time.Duration {
	at := time.UnixMilli(millis)
	switch {
	case millis == 0:
		return 0
	case at.After(answered):
		return at.Sub(answered)
	case at.Before(asked.Truncate(time.Millisecond)):
		return at.Sub(asked)
	}
	return 0
}

// askStatus asks one member. If it does not answer in time, the connection is closed, on
// which other requests may be waiting.
func (s *membership) askStatus(ctx context.Context, m Member) (st peerStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.node.options.Timing.Call)
	defer cancel()
	st, err = s.statusOf(ctx, m)
	if err != nil && ctx.Err() != nil {
		s.conns.drop(m)
	}
	return st, err
}

// askStatusKeepingConn asks one member, and leaves the connection to the other requests on
// it.
func (s *membership) askStatusKeepingConn(ctx context.Context, m Member) (peerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, s.node.options.Timing.Call)
	defer cancel()
	return s.statusOf(ctx, m)
}

// statusOf asks one member, for as long as ctx lasts.
func (s *membership) statusOf(ctx context.Context, m Member) (st peerStatus, err error) {
	f, err := s.conns.ask(ctx, m, callStatus, nil)
	if err != nil {
		return peerStatus{}, err
	}
	if err := f.err(); err != nil {
		return peerStatus{}, err
	}
	if err := json.Unmarshal(f.payload, &st); err != nil {
		return peerStatus{}, fmt.Errorf("read the status of node %d: %w", m.NodeID, err)
	}
	return st, nil
}

// recordContact stores the outcome of asking a member, and logs when the member stops or
// starts to answer.
func (s *membership) recordContact(m Member, st peerStatus, ahead time.Duration, err error) {
	if s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	old, asked := s.contacts[m.ref()]
	c := contact{st, time.Now(), ahead, nil}
	if err != nil {
		c = contact{old.peerStatus, old.at, old.skew, err}
	}
	s.contacts[m.ref()] = c
	s.mu.Unlock()
	if known := s.fsm.state.Load().Index; known > 0 && st.Known > known {
		raise(&s.reportedUpTo, st.Known)
		s.node.notify() // it may have reported that another node was removed
	}
	switch {
	case err != nil && (!asked || old.err == nil):
		s.node.log.Warn("a node of the cluster does not answer", "node", int(m.NodeID), "address", m.hostPort(), "error", err)
	case err == nil && asked && old.err != nil:
		s.node.log.Info("a node of the cluster answers again", "node", int(m.NodeID))
	}
	if refusal := s.fsm.state.Load().cannotShare(st); err == nil && old.at.IsZero() && refusal != nil {
		s.node.log.Warn("a node is not let into the cluster", "node", int(m.NodeID), "error", refusal)
	}
}

// contactsByRef returns a copy of the contacts.
func (s *membership) contactsByRef() map[memberRef]contact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.contacts)
}

// mayVote reports whether a node has the state and nearly the whole log, and lacks nothing.
func (s *membership) mayVote(c *peerStatus) bool {
	return c.Seeded && !c.Lacks && c.Applied+maxPromotionLag >= s.fsm.appliedIndex()
}

// reconcileVoters makes one change to raft's configuration, and reports whether more may be
// needed: nodes that are not members are removed; members that answer are added without a vote,
// and become voters once they may. A member that has never answered is not in the configuration,
// so that no vote waits for it.
func (s *membership) reconcileVoters() bool {
	known, heard := s.fsm.state.Load(), s.contactsByRef()
	if known.Dissolved {
		return false
	}
	in := map[memberRef]raft.Server{}
	for _, server := range s.servers() {
		r, _ := parseMemberRef(string(server.ID))
		if !known.has(r) && r != s.credentials.self {
			return s.change("remove", r, func() raft.IndexFuture { return s.raft.RemoveServer(server.ID, 0, s.node.options.Timing.Call) })
		}
		in[r] = server
	}
	for _, m := range known.Members {
		c, ok := heard[m.ref()]
		if !ok || c.err != nil {
			continue
		}
		server, isIn := in[m.ref()]
		switch {
		case !isIn && known.cannotShare(c.peerStatus) != nil:
		case !isIn:
			return s.change("add", m.ref(), func() raft.IndexFuture {
				return s.raft.AddNonvoter(raft.ServerID(m.ref().String()), m.serverAddress(), 0, s.node.options.Timing.Call)
			})
		case server.Suffrage != raft.Voter && s.mayVote(&c.peerStatus) && s.votersAgree(m.ref(), heard):
			return s.promoteToVoter(m.ref(), server)
		}
	}
	return false
}

// promoteToVoter makes a node a voter.
func (s *membership) promoteToVoter(r memberRef, server raft.Server) bool {
	var f raft.IndexFuture
	ok := s.change("give a vote to", r, func() raft.IndexFuture {
		f = s.raft.AddVoter(server.ID, server.Address, 0, s.node.options.Timing.Call)
		return f
	})
	if ok {
		s.lastPromotion = promotion{s.lastPromotion.term, f.Index(), time.Now()}
	}
	return ok
}

// votersAgree reports whether the node that is to become a voter, and the voters that
// answer, have the earlier promotions in their logs. A node votes only for nodes that it
// knows as voters, so two promotions at once could leave no electable node if this one
// failed now. A node that lags blocks the others only for Timing.Request.
func (s *membership) votersAgree(r memberRef, heard map[memberRef]contact) bool {
	if term := s.raft.CurrentTerm(); s.lastPromotion.term != term {
		s.lastPromotion = promotion{term, s.raft.LastIndex(), time.Now()}
	}
	if time.Since(s.lastPromotion.at) > s.node.options.Timing.Request {
		return true
	}
	for _, server := range s.servers() {
		voter, _ := parseMemberRef(string(server.ID))
		c, ok := heard[voter]
		if (server.Suffrage == raft.Voter || voter == r) && ok && c.err == nil && c.Held > 0 && c.Held < s.lastPromotion.index {
			time.AfterFunc(2*s.node.options.Timing.Commit, s.notify)
			return false
		}
	}
	return true
}

// promotion is the last promotion to voter in the term in which this node leads, or the beginning
// of that term.
type promotion struct {
	term, index uint64
	at          time.Time
}

// change makes a change to the configuration, and waits until it is committed.
func (s *membership) change(what string, r memberRef, begin func() raft.IndexFuture) bool {
	if err := s.await(s.ctx, func() raft.Future { return begin() }); err != nil {
		s.node.log.Warn("the members of the consensus cannot be changed now", "change", what, "node", r.String(), "error", err)
		return false
	}
	s.node.log.Info("the members of the consensus change", "change", what, "node", r.String())
	return true
}
