package systemtest

import (
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// fault is something that happens to a cluster at work. It gives how long nothing
// was acknowledged by those who can.
type fault struct {
	name   string
	happen func(t testing.TB, s *siege) time.Duration
}

var faults = []fault{
	{"leader killed", killed(true)},
	{"follower killed", killed(false)},
	{"leader cut off", cutOff(true, true, true)},
	{"leader mute", cutOff(true, true, false)},
	{"leader deaf", cutOff(true, false, true)},
	{"follower cut off", cutOff(false, true, true)},
	{"follower mute", cutOff(false, true, false)},
	{"follower deaf", cutOff(false, false, true)},
	{"restarted one after the other", rolling},
	{"all killed", allKilled},
	{"leader without its data", withoutData(true)},
	{"follower without its data", withoutData(false)},
	{"leader stopped for a while", suspended},
	{"majority killed", majorityKilled},
}

// victim gives the leader or a follower, and the others.
func (s *siege) victim(t testing.TB, leads bool) (*machine, []*machine) {
	t.Helper()
	leader, followers := s.leading(t)
	if leads {
		return leader, followers
	}
	i := s.random.IntN(len(followers))
	return followers[i], append(slices.Delete(slices.Clone(followers), i, i+1), leader)
}

func killed(leads bool) func(testing.TB, *siege) time.Duration {
	return func(t testing.TB, s *siege) time.Duration {
		m, others := s.victim(t, leads)
		m.run.Kill()
		took := s.recovery(t, others...)
		s.more(t, 20)
		s.back(t, m)
		return took
	}
}

func cutOff(leads, mute, deaf bool) func(testing.TB, *siege) time.Duration {
	return func(t testing.TB, s *siege) time.Duration {
		m, others := s.victim(t, leads)
		if mute {
			s.wires.sever(away(m, others)...)
		}
		if deaf {
			s.wires.sever(back(m, others)...)
		}
		took := s.recovery(t, others...)
		s.more(t, 20)
		s.wires.mend()
		return took
	}
}

func rolling(t testing.TB, s *siege) (longest time.Duration) {
	for i, m := range s.machines {
		m.run.stop(t)
		next := s.machines[(i+1)%len(s.machines)]
		longest = max(longest, s.recovery(t, next))
		s.back(t, m)
		s.insist(t, m) // which it does when it has caught up
	}
	return longest
}

func withoutData(leads bool) func(testing.TB, *siege) time.Duration {
	return func(t testing.TB, s *siege) time.Duration {
		m, others := s.victim(t, leads)
		m.run.Kill()
		took := s.recovery(t, others...)
		s.doors.forget(m)
		m.forget(t)
		s.join(t, m)
		s.well(t)
		s.man(t, m)
		return took
	}
}

func allKilled(t testing.TB, s *siege) time.Duration {
	var all sync.WaitGroup
	for _, m := range s.machines {
		all.Go(m.run.Kill)
	}
	all.Wait()
	s.back(t, s.machines...)
	return s.recovery(t, s.machines...)
}

// suspended holds the leader's process, as a machine does that is moved. When it
// goes on it does not know yet that another one leads.
func suspended(t testing.TB, s *siege) time.Duration {
	m, others := s.victim(t, true)
	m.run.Signal(syscall.SIGSTOP)
	took := s.recovery(t, others...)
	s.more(t, 20)
	m.run.Signal(syscall.SIGCONT)
	return took
}

// majorityKilled leaves one node. It acknowledges nothing, and where it served the
// clients of all it serves them no more.
func majorityKilled(t testing.TB, s *siege) time.Duration {
	last, others := s.victim(t, true)
	for _, m := range others {
		m.run.Kill()
	}
	if s.mode == "full" {
		suite.WaitFor(t, "the last node serves clients no more", func() bool { return !last.admits(t, last.mqtt, visitor, passwordOf(visitor)) })
	}
	if last.try(t, s.ledger, s.group(last)) {
		t.Errorf("node %d of %d acknowledged a change by itself", last.id, len(s.machines))
	}
	s.back(t, others...)
	return s.recovery(t, s.machines...)
}
