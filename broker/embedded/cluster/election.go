package cluster

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"
)

// speedUpElections starts an election as soon as the leader has missed a heartbeat
// timeout, or at once if it has failed. raft checks at random moments, up to three timeouts late; and
// as no node votes while it still has a leader, the one that checks last decides. Here the nodes check
// one after the other, the one with the longest log last, so that the first that finds a
// majority without a leader gets their votes without competition. Meanwhile raft's own
// timeout is longer, as long as there is a leader.
func (s *membership) speedUpElections() {
	turn := s.node.options.Timing.Heartbeat / 8
	for s.ctx.Err() == nil {
		left, follows := s.untilHeartbeatTimeout()
		if left > 0 {
			s.setElectionTimeouts(follows)
			s.awaitTimeout(left)
			continue
		}
		began := time.Now()
		rank := s.electionRank(turn, func(other, own uint64) bool { return other < own })
		pause(s.ctx, time.Duration(1+rank)*turn-time.Since(began))
		if left, _ := s.untilHeartbeatTimeout(); left <= 0 {
			s.setElectionTimeouts(true)
			s.setElectionTimeouts(false) // makes raft check for its leader
		}
		pause(s.ctx, turn)
	}
}

// awaitTimeout waits for a time, or until the leader has failed and an election was started.
func (s *membership) awaitTimeout(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.disconnected:
		s.replaceFailedLeader(time.Now().Add(d))
	case <-s.ctx.Done():
	}
}

// failureRetry is when a leader whose connections have ended is tried again; the interval doubles then.
const failureRetry = 10 * time.Millisecond

// replaceFailedLeader starts an election if nothing listens at the leader's address any more: its
// process has ended. The voter with the longest log is the first. The others vote for it although
// they have a leader, as when that hands its leadership over.
func (s *membership) replaceFailedLeader(deadline time.Time) {
	failed, follows := s.leader()
	if !follows || s.raft.State() != raft.Follower || s.role(s.id.Self) != RoleVoter || s.mayBeElected() != nil || !s.hasFailed(failed, deadline) {
		return
	}
	turn := s.node.options.Timing.Heartbeat / 8
	rank := s.electionRank(turn, func(other, own uint64) bool { return other > own })
	pause(s.ctx, time.Duration(rank)*turn)
	if leader, _ := s.leader(); leader != failed || s.raft.State() != raft.Follower {
		return
	}
	s.node.log.Info("the leader refuses connections: an election is started", "leader", int(failed.NodeID))
	select {
	case s.stand <- struct{}{}:
	case <-s.ctx.Done():
	}
}

// hasFailed reports whether the leader refuses connections. One that cannot be reached for another
// reason is tried again, as long as it is the leader.
func (s *membership) hasFailed(leader Member, deadline time.Time) bool {
	ctx, cancel := context.WithDeadline(s.ctx, deadline)
	defer cancel()
	for wait := failureRetry; ctx.Err() == nil; wait *= 2 {
		_, err := s.statusOf(ctx, leader)
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			return err != nil
		}
		if now, _ := s.leader(); now != leader {
			return false
		}
		pause(ctx, wait)
	}
	return false
}

// raftInboundConn is a connection that another node has opened for raft's messages.
type raftInboundConn struct {
	net.Conn
	membership *membership
	from       NodeID
}

// Read reads. The end of a connection of the leader may mean that it has failed.
func (c *raftInboundConn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if err != nil {
		if leader, ok := c.membership.leader(); ok && leader.NodeID == c.from {
			notify(c.membership.disconnected)
		}
	}
	return n, err
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
// leader before this node: those whose last entry precedes that of this node's log, and of those
// with the same one the nodes with lower numbers.
func (s *membership) electionRank(atMost time.Duration, precedes func(other, own uint64) bool) int {
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
			if err == nil && (precedes(st.Stored, own) || st.Stored == own && m.NodeID < s.id.Self.NodeID) {
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
