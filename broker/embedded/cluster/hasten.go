package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// hasten has this node miss a leader that is silent as soon as it may. raft looks
// at random moments, up to three times as late; and as nobody votes who has not
// missed the leader, too, the one that looks last decides. Here one after the
// other does, the one with the longest log last, so that the first to find enough
// who have missed the leader has their votes, and stands alone. Meanwhile raft's
// own looks do not count: its timeout is longer as long as there is a leader.
func (s *seat) hasten() {
	turn := s.node.options.Timing.Heartbeat / 8
	for s.ctx.Err() == nil {
		left, follows := s.untilSilent()
		if left > 0 {
			s.setPatience(follows)
			pause(s.ctx, left)
			continue
		}
		began := time.Now()
		rank := s.rank(turn)
		pause(s.ctx, time.Duration(1+rank)*turn-time.Since(began))
		if left, _ := s.untilSilent(); left <= 0 {
			s.setPatience(true)
			s.setPatience(false) // upon which raft looks
		}
		pause(s.ctx, turn)
	}
}

// untilSilent gives the time until the leader that this node has counts as silent,
// if nothing is heard of it, and whether it has one.
func (s *seat) untilSilent() (left time.Duration, follows bool) {
	t, contact := s.node.options.Timing, s.raft.LastContact()
	leader, _ := s.raft.LeaderWithID()
	if s.raft.State() != raft.Follower || leader == "" || contact.IsZero() {
		return t.Heartbeat / 4, false
	}
	return time.Until(contact.Add(t.Heartbeat)), true
}

// rank gives how many of those who have a vote look for the leader before this
// node, as far as they answer in time.
func (s *seat) rank(atMost time.Duration) int {
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
			st, err := s.standingOf(ctx, m)
			own := s.raft.LastIndex()
			if err == nil && (st.Stored < own || st.Stored == own && m.NodeID < s.id.Self.NodeID) {
				before.Add(1)
			}
		})
	}
	wg.Wait()
	return int(before.Load())
}

// setPatience gives raft its timeouts, longer ones than the product's or just
// those. It looks for its leader at once when they become shorter.
func (s *seat) setPatience(longer bool) {
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
		s.node.log.Error("the timeouts of the consensus cannot be set", "err", err)
	}
}
