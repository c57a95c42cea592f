package cluster

import (
	"time"

	"github.com/hashicorp/raft"
)

// nudged is by how much a timeout is made longer and shorter again to have raft
// look at it.
const nudged = time.Microsecond

// hasten has this node miss a leader that is silent as soon as it may. raft looks
// at random moments, up to three times as late; and as nobody votes who has not
// missed the leader, too, the one that looks last decides. Here one after the
// other does, so that the first to find enough who have missed the leader stands
// alone.
func (s *seat) hasten() {
	for s.ctx.Err() == nil {
		pause(s.ctx, s.untilMissed())
		if s.untilMissed() <= 0 {
			s.lookForLeader()
			pause(s.ctx, s.node.options.Timing.Heartbeat/8)
		}
	}
}

// untilMissed gives the time until this node misses the leader it has, if nothing
// is heard of it.
func (s *seat) untilMissed() time.Duration {
	t, contact := s.node.options.Timing, s.raft.LastContact()
	leader, _ := s.raft.LeaderWithID()
	if s.raft.State() != raft.Follower || leader == "" || contact.IsZero() {
		return t.Heartbeat / 2
	}
	after := t.Heartbeat + time.Duration(1+s.rank(leader))*t.Heartbeat/8
	return time.Until(contact.Add(after))
}

// rank gives how many of those who have a vote look for the leader before this
// node.
func (s *seat) rank(leader raft.ServerAddress) (n int) {
	for _, server := range s.servers() {
		r, _ := parseRef(string(server.ID))
		if server.Suffrage == raft.Voter && server.Address != leader && r.id < s.badge.self.id {
			n++
		}
	}
	return n
}

// lookForLeader has raft look now. It does so when its timeout becomes shorter.
func (s *seat) lookForLeader() {
	c := s.raft.ReloadableConfig()
	c.HeartbeatTimeout = s.node.options.Timing.Heartbeat + nudged
	s.raft.ReloadConfig(c) //nolint:errcheck // the timeouts are valid
	c.HeartbeatTimeout -= nudged
	s.raft.ReloadConfig(c) //nolint:errcheck // as above
}
