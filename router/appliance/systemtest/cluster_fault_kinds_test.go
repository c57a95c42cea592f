package systemtest

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// fault is a fault of a cluster under load. happen returns how long the nodes that can
// acknowledge did not.
type fault struct {
	name      string
	happen    func(t testing.TB, s *faultCampaign) time.Duration
	losesData bool // of a node
}

var faults = []fault{
	{name: "leader killed", happen: killed(true)},
	{name: "follower killed", happen: killed(false)},
	{name: "leader cut off", happen: cutOff(true, true, true)},
	{name: "leader mute", happen: cutOff(true, true, false)},
	{name: "leader deaf", happen: cutOff(true, false, true)},
	{name: "follower cut off", happen: cutOff(false, true, true)},
	{name: "follower mute", happen: cutOff(false, true, false)},
	{name: "follower deaf", happen: cutOff(false, false, true)},
	{name: "restarted one after the other", happen: rolling},
	{name: "all killed", happen: allKilled},
	{name: "leader without its data", happen: withoutData(true), losesData: true},
	{name: "follower without its data", happen: withoutData(false), losesData: true},
	{name: "leader stopped for a while", happen: suspended},
	{name: "majority killed", happen: majorityKilled},
}

// victim returns the leader or a follower, and the others.
func (s *faultCampaign) victim(t testing.TB, leads bool) (*machine, []*machine) {
	t.Helper()
	leader, followers := s.leading(t)
	if leads {
		return leader, followers
	}
	i := s.random.IntN(len(followers))
	return followers[i], append(slices.Delete(slices.Clone(followers), i, i+1), leader)
}

func killed(leads bool) func(testing.TB, *faultCampaign) time.Duration {
	return func(t testing.TB, s *faultCampaign) time.Duration {
		m, others := s.victim(t, leads)
		m.run.Kill()
		took := s.recovery(t, others...)
		s.awaitAcknowledged(t, 20)
		s.restart(t, m)
		return took
	}
}

func cutOff(leads, mute, deaf bool) func(testing.TB, *faultCampaign) time.Duration {
	return func(t testing.TB, s *faultCampaign) time.Duration {
		m, others := s.victim(t, leads)
		if mute {
			s.network.Cut(outgoing(m, others)...)
		}
		if deaf {
			s.network.Cut(incoming(m, others)...)
		}
		took := s.recovery(t, others...)
		s.awaitAcknowledged(t, 20)
		s.network.Heal()
		return took
	}
}

func rolling(t testing.TB, s *faultCampaign) (longest time.Duration) {
	for i, m := range s.machines {
		m.run.stop(t)
		next := s.machines[(i+1)%len(s.machines)]
		longest = max(longest, s.recovery(t, next))
		s.restart(t, m)
		s.retryUntilAcknowledged(t, m) // which it does when it has caught up
	}
	return longest
}

func withoutData(leads bool) func(testing.TB, *faultCampaign) time.Duration {
	return func(t testing.TB, s *faultCampaign) time.Duration {
		m, others := s.victim(t, leads)
		m.run.Kill()
		took := s.recovery(t, others...)
		s.forget(m)
		m.forget(t)
		s.join(t, m)
		s.awaitHealthy(t)
		s.writeThrough(t, m)
		return took
	}
}

func allKilled(t testing.TB, s *faultCampaign) time.Duration {
	var all sync.WaitGroup
	for _, m := range s.machines {
		all.Go(m.run.Kill)
	}
	all.Wait()
	s.restart(t, s.machines...)
	return s.recovery(t, s.machines...)
}

// suspended stops the leader's process for a while, like a virtual machine that is
// moved. When it continues it does not know yet that there is another leader.
func suspended(t testing.TB, s *faultCampaign) time.Duration {
	m, others := s.victim(t, true)
	m.run.Signal(syscall.SIGSTOP)
	took := s.recovery(t, others...)
	s.awaitAcknowledged(t, 20)
	m.run.Signal(syscall.SIGCONT)
	return took
}

// majorityKilled leaves one node. It acknowledges nothing, and stops serving clients if
// it was the one that served them.
func majorityKilled(t testing.TB, s *faultCampaign) time.Duration {
	last, others := s.victim(t, true)
	for _, m := range others {
		m.run.Kill()
	}
	if s.mode == "full" {
		suite.WaitFor(t, "the last node serves clients no more", func() bool { return !last.admits(t, last.mqtt, revocationUser, passwordOf(revocationUser)) })
	}
	if s.write(t, last, s.group(last)) {
		t.Errorf("node %d of %d acknowledged a change by itself", last.id, len(s.machines))
	}
	s.restart(t, others...)
	return s.recovery(t, s.machines...)
}
