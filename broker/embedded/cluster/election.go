package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// speedUpElections starts an election as soon as the leader has missed a heartbeat
// timeout. raft checks at random moments, up to three timeouts late; and as no node votes
// while it still has a leader, the one that checks last decides. Here the nodes check one
// after the other, the one with the longest log last, so that the first that finds a
// majority without a leader gets their votes without competition. Meanwhile raft's own
// timeout is longer, as long as there is a leader.
func (s *membership) speedUpElections() {
	turn := s.node.options.Timing.Heartbeat / 8
	for s.ctx.Err() == nil {
		left, follows := s.untilHeartbeatTimeout()
		if left > 0 {
			s.setElectionTimeouts(follows)
			pause(s.ctx, left)
			continue
		}
		began := time.Now()
		rank := s.electionRank(turn)
		pause(s.ctx, time.Duration(1+rank)*turn-time.Since(began))
		if left, _ := s.untilHeartbeatTimeout(); left <= 0 {
			s.setElectionTimeouts(true)
			s.setElectionTimeouts(false) // makes raft check for its leader
		}
		pause(s.ctx, turn)
	}
}

// untilHeartbeatTimeout returns the time until the heartbeat timeout of this node's leader, if
// nothing is received from it, and reports whether the node has a leader.
func (s *membership) untilHeartbeatTimeout() (left time.Duration, follows bool) {
	t, contact := s.node.options.Timing, s.raft.LastContact()
	leader, _ := s.raft.LeaderWithID()
	if s.raft.State() != raft.Follower || leader == "" || contact.IsZero() {
		return t.Heartbeat / 4, false
	}
	return time.Until(contact.Add(t.Heartbeat)), true
}

// electionRank returns how many other voters, of those that respond in time, check for the
// leader before this node.
func (s *membership) electionRank(atMost time.Duration) int {
	ctx, cancel := context.WithTimeout(s.ctx, atMost)
	defer cancel()
	var wg sync.WaitGroup
	var before atomic.Int64
	leader, _ := s.leader()
	for _, m := range s.others() {
		if m == leader || s.role(m) != RoleVoter {
			continue
		}
		wg.Go(func() {
			st, err := s.statusOf(ctx, m)
			own := s.raft.LastIndex()
			if err == nil && (st.Stored < own || st.Stored == own && m.NodeID < s.id.Self.NodeID) {
				before.Add(1)
			}
		})
	}
	wg.Wait()
	return int(before.Load())
}

// setElectionTimeouts sets raft's timeouts, to those of Timing or longer ones. raft
// checks for its leader at once when they become shorter.
func (s *membership) setElectionTimeouts(longer bool) {
	t, c := s.node.options.Timing, s.raft.ReloadableConfig()
	heartbeat, election := t.Heartbeat, t.Election
	if longer {
		heartbeat, election = t.Heartbeat*3/2, t.Election*3/2
	}
	if c.HeartbeatTimeout == heartbeat && c.ElectionTimeout == election {
		return
	}
	c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, election
	if err := s.raft.ReloadConfig(c); err != nil {
		s.node.log.Error("the timeouts of the consensus cannot be set", "error", err)
	}
}
