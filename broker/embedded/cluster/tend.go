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

// caughtUp is how many entries a node may lack when it is given a vote: it has
// them before the vote counts.
const caughtUp = 64

// standing is what nodes tell each other of themselves, and how they see the one
// that asks.
type standing struct {
	Version string `json:"version"`
	Applied uint64 `json:"applied"`
	Held    uint64 `json:"held,omitzero"`   // up to which entry of the log, of any kind, it has dealt with all; 0 in earlier releases
	Stored  uint64 `json:"stored,omitzero"` // the last entry of its log
	Leader  NodeID `json:"leader,omitzero"`
	Seeded  bool   `json:"seeded"`           // it has received the cluster's state
	Removed bool   `json:"removed,omitzero"` // the one that asks is no member any more

	Key   string         `json:"key,omitempty"`   // fingerprint of its own key; "" in earlier releases
	Known uint64         `json:"known,omitempty"` // up to which command it knows the members
	Keys  map[string]pin `json:"keys,omitempty"`  // of these
}

// contact is the last that was heard of a member.
type contact struct {
	standing
	at  time.Time // when it answered last, zero if never
	err error     // why it did not answer since
}

// look is called after a change and from time to time. A leader brings the
// consensus in line with the members, one step at a time; who knows no leader
// asks what has become of the cluster.
func (s *seat) look() {
	if s.raft.State() == raft.Leader {
		s.askAll()
		if s.raft.State() == raft.Leader && s.step() {
			s.nudge()
		}
		return
	}
	if _, ok := s.leader(); ok || time.Since(s.raft.LastContact()) < 3*s.node.options.Timing.Election {
		s.askAgain()
		return
	}
	s.askAll()
	if s.isTrulyRemoved() {
		if err := s.end(endRemoved); err != nil {
			s.node.log.Error("the node is removed, and cannot store that", "err", err)
		}
	}
}

// askAgain asks those whose word this node needs, though it has a leader.
func (s *seat) askAgain() {
	known := s.fsm.state.Load()
	switch {
	case s.reliesOnOthers.Swap(false), s.toldUpTo.Load() > known.Index:
		s.askAll()
	case known.Keys != nil:
		s.ask(s.unanswered())
	}
}

// others lists the members beside this one. A node that has just joined knows
// those who invited it.
func (s *seat) others() (all []Member) {
	known := s.fsm.state.Load()
	members := known.Members
	if known.Index == 0 {
		members = s.id.Known
	}
	for _, m := range members {
		if m.NodeID != s.id.Self.NodeID {
			all = append(all, m)
		}
	}
	return all
}

// askAll asks all other members how they stand, at the same time.
func (s *seat) askAll() {
	others := s.others()
	s.ask(others)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.contacts, func(r ref, _ contact) bool {
		return !slices.ContainsFunc(others, func(m Member) bool { return m.ref() == r })
	})
}

// ask asks members how they stand, at the same time.
func (s *seat) ask(members []Member) { s.askWith(s.askStanding, members) }

func (s *seat) askWith(ask func(context.Context, Member) (standing, error), members []Member) {
	var wg sync.WaitGroup
	for _, m := range members {
		wg.Go(func() {
			st, err := ask(s.ctx, m)
			s.heard(m, st, err)
		})
	}
	wg.Wait()
}

// askStanding asks one member. Who does not answer in time loses the line on
// which others may be waiting.
func (s *seat) askStanding(ctx context.Context, m Member) (st standing, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.node.options.Timing.Call)
	defer cancel()
	st, err = s.standingOf(ctx, m)
	if err != nil && ctx.Err() != nil {
		s.exchange.hangUp(m)
	}
	return st, err
}

// standingInTime asks one member, and leaves its line to the others that wait there.
func (s *seat) standingInTime(ctx context.Context, m Member) (standing, error) {
	ctx, cancel := context.WithTimeout(ctx, s.node.options.Timing.Call)
	defer cancel()
	return s.standingOf(ctx, m)
}

// standingOf asks one member, as long as its caller likes.
func (s *seat) standingOf(ctx context.Context, m Member) (st standing, err error) {
	f, err := s.exchange.ask(ctx, m, callStanding, nil)
	if err != nil {
		return standing{}, err
	}
	if err := f.problem(); err != nil {
		return standing{}, err
	}
	if err := json.Unmarshal(f.payload, &st); err != nil {
		return standing{}, fmt.Errorf("read how node %d stands: %w", m.NodeID, err)
	}
	return st, nil
}

// heard remembers what was heard of a member, and logs when that changes.
func (s *seat) heard(m Member, st standing, err error) {
	if s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	old, asked := s.contacts[m.ref()]
	c := contact{st, time.Now(), nil}
	if err != nil {
		c = contact{old.standing, old.at, err}
	}
	s.contacts[m.ref()] = c
	s.mu.Unlock()
	if known := s.fsm.state.Load().Index; known > 0 && st.Known > known {
		raise(&s.toldUpTo, st.Known)
		s.node.nudge() // it may say that another one was removed
	}
	switch {
	case err != nil && (!asked || old.err == nil):
		s.node.log.Warn("a node of the cluster does not answer", "node", int(m.NodeID), "address", m.hostPort(), "err", err)
	case err == nil && asked && old.err != nil:
		s.node.log.Info("a node of the cluster answers again", "node", int(m.NodeID))
	}
}

// heardOf gives what was heard of the members.
func (s *seat) heardOf() map[ref]contact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.contacts)
}

// step makes one change to who takes part in the consensus, and tells whether
// there may be more to change: nodes that are no members go; members that answer
// come in without a vote, and are given one once they have what all have.
func (s *seat) step() bool {
	known, heard := s.fsm.state.Load(), s.heardOf()
	if known.Dissolved {
		return false
	}
	in := map[ref]raft.Server{}
	for _, server := range s.servers() {
		r, _ := parseRef(string(server.ID))
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
		case !isIn:
			return s.change("add", m.ref(), func() raft.IndexFuture {
				return s.raft.AddNonvoter(raft.ServerID(m.ref().String()), m.serverAddress(), 0, s.node.options.Timing.Call)
			})
		case server.Suffrage != raft.Voter && c.Seeded && c.Applied+caughtUp >= s.fsm.upTo() && s.informed(m.ref(), heard):
			return s.giveVote(m.ref(), server)
		}
	}
	return false
}

// giveVote gives a node a vote.
func (s *seat) giveVote(r ref, server raft.Server) bool {
	var f raft.IndexFuture
	ok := s.change("give a vote to", r, func() raft.IndexFuture {
		f = s.raft.AddVoter(server.ID, server.Address, 0, s.node.options.Timing.Call)
		return f
	})
	if ok {
		s.given = vote{s.given.term, f.Index(), time.Now()}
	}
	return ok
}

// informed tells whether a node that is to be given a vote, and those who have one
// and answer, know of all who were given one before. A node votes for nobody of
// whom it does not know that he may lead, so two votes that are given at once
// might leave nobody to lead if this node went down now. One that lags cannot
// keep the others waiting for long.
func (s *seat) informed(r ref, heard map[ref]contact) bool {
	if term := s.raft.CurrentTerm(); s.given.term != term {
		s.given = vote{term, s.raft.LastIndex(), time.Now()}
	}
	if time.Since(s.given.at) > s.node.options.Timing.Request {
		return true
	}
	for _, server := range s.servers() {
		voter, _ := parseRef(string(server.ID))
		c, ok := heard[voter]
		if (server.Suffrage == raft.Voter || voter == r) && ok && c.err == nil && c.Held > 0 && c.Held < s.given.index {
			time.AfterFunc(2*s.node.options.Timing.Commit, s.nudge)
			return false
		}
	}
	return true
}

// vote is when this node, in the term in which it leads, has given the last one,
// or would have.
type vote struct {
	term, index uint64
	at          time.Time
}

// change makes a change to who takes part, and waits until it is agreed upon.
func (s *seat) change(what string, r ref, begin func() raft.IndexFuture) bool {
	if err := s.settle(s.ctx, func() raft.Future { return begin() }); err != nil {
		s.node.log.Warn("the members of the consensus cannot be changed now", "change", what, "node", r.String(), "err", err)
		return false
	}
	s.node.log.Info("the members of the consensus change", "change", what, "node", r.String())
	return true
}
