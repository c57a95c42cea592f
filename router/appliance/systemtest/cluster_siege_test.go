package systemtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// siege is a cluster that works while its nodes fail: clients are made through
// every node, some are contested, and doors are closed and tried. In the end
// nothing that was acknowledged may be missing anywhere.
type siege struct {
	*club
	wires   *wires
	ledger  *ledger // of the clients that are made
	contest *contest
	doors   *doors
	random  *rand.Rand
	ctx     context.Context // of the work
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	up     map[int]*machine
	groups int // of clients so far
}

// besiege makes a cluster whose wires can be cut, and has it work.
func besiege(t testing.TB, mode string, n int, prepare ...func(testing.TB, *machine)) *siege {
	t.Helper()
	random := suite.Rand(t)
	s := &siege{wires: newWires(t), ledger: newLedger(0), contest: &contest{began: time.Now(), random: random},
		doors: newDoors(random), up: map[int]*machine{}, random: random}
	s.club = gatherApart(t, n, append(prepare, s.wires.lay)...)
	s.mode = mode
	s.create(t)
	first := s.machines[0]
	first.api.must(t, "POST", first.api.at("/clients"), object{"username": visitor, "password": passwordOf(visitor)}, nil)
	if !s.doors.build(t, first) {
		t.Fatal("no doors were built")
	}
	wantSame(t, s.machines...)
	s.ctx, s.stop = context.WithCancel(t.Context())
	t.Cleanup(s.end)
	for _, m := range s.machines {
		s.man(t, m)
	}
	s.work.Go(func() { s.turnDoors(t) })
	return s
}

// end ends the work and waits for it.
func (s *siege) end() {
	s.stop()
	s.work.Wait()
}

// pace is the least time between two operations of one worker: the machine is to
// be busy, not to be worn out.
const pace = 25 * time.Millisecond

// every does something again and again until the work ends, or the process that
// it is done with.
func (s *siege) every(p *service, do func(n int)) {
	next := time.NewTicker(pace)
	defer next.Stop()
	for n := 1; ; n++ {
		select {
		case <-next.C:
			do(n)
		case <-p.Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// man has the process that runs on a machine be worked with, until it ends.
func (s *siege) man(t testing.TB, m *machine) {
	t.Helper()
	now := *m // as it is now: the machine may be started again meanwhile
	prefix := s.group(m)
	s.mu.Lock()
	s.up[m.id] = &now
	s.mu.Unlock()
	s.work.Go(func() {
		s.every(now.run, func(n int) { now.try(t, s.ledger, fmt.Sprintf("%s-%d", prefix, n)) })
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.up[now.id] == &now {
			delete(s.up, now.id)
		}
	})
	s.work.Go(func() { s.every(now.run, func(int) { s.contest.enter(t, &now) }) })
	s.work.Go(func() { s.every(now.run, func(int) { s.doors.again(t, &now) }) })
}

// turnDoors closes doors through whichever machines run.
func (s *siege) turnDoors(t testing.TB) {
	next := time.NewTicker(4 * pace)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-s.ctx.Done():
			return
		}
		var all []*machine
		s.mu.Lock()
		for _, m := range s.up {
			all = append(all, m)
		}
		s.mu.Unlock()
		if len(all) > 0 {
			s.doors.turn(t, all[s.random.IntN(len(all))], all)
		}
	}
}

// more waits until that many more clients are acknowledged.
func (s *siege) more(t testing.TB, n int) {
	t.Helper()
	from := s.ledger.promises()
	suite.WaitFor(t, "work goes on", func() bool { return s.ledger.promises() >= from+n })
}

// recovery waits until machines acknowledge again, and gives how long that took.
// It asks anew all the time: who was asked before something failed may wait for
// an answer that is lost.
func (s *siege) recovery(t testing.TB, machines ...*machine) time.Duration {
	t.Helper()
	began := time.Now()
	for _, m := range machines {
		s.insist(t, m)
	}
	return since(began)
}

func (s *siege) insist(t testing.TB, m *machine) {
	t.Helper()
	now, prefix := *m, s.group(m)
	acknowledged := make(chan struct{})
	var once sync.Once
	again := time.NewTicker(2 * pace)
	defer again.Stop()
	end := time.After(suite.HangLimit)
	for n := 1; ; n++ {
		s.work.Go(func() {
			if now.try(t, s.ledger, fmt.Sprintf("%s-%d", prefix, n)) {
				once.Do(func() { close(acknowledged) })
			}
		})
		select {
		case <-again.C:
		case <-acknowledged:
			return
		case <-end:
			t.Fatalf("node %d acknowledges nothing for %v", m.id, suite.HangLimit)
		}
	}
}

// group names clients that are made through a machine.
func (s *siege) group(m *machine) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups++
	return fmt.Sprintf("g%d-%d", s.groups, m.id)
}

// back starts machines that were killed, and has them be worked with again.
func (s *siege) back(t testing.TB, machines ...*machine) {
	t.Helper()
	startAll(t, machines...)
	for _, m := range machines {
		s.man(t, m)
	}
}

// well waits until all nodes are well.
func (s *siege) well(t testing.TB) {
	t.Helper()
	waitLong(t, "all nodes are well", func() bool { return s.picture(t).State == "active" })
}

// waitLong is waitFor for what the console finds out: it tries a broker that was
// lost several times within a minute again after half a minute only.
func waitLong(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.Now().Add(2 * suite.HangLimit)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-again.C
	}
}

// judge ends the work and holds all nodes against what they acknowledged.
func (s *siege) judge(t testing.TB) {
	t.Helper()
	s.wires.mend()
	s.well(t)
	s.end()
	s.contest.judge(t)
	for i := range contested { // others judge these
		s.ledger.asked(contestedName(i))
	}
	s.ledger.asked(visitor)
	s.ledger.asked(worker)
	wantKept(t, s.ledger, s.machines...)
	serving := s.machines
	if s.mode == "full" {
		leader, _ := s.leading(t)
		serving = []*machine{leader}
	}
	s.doors.judge(t, serving...)
}

// endure has faults happen, and the cluster be well after each.
func (s *siege) endure(t testing.TB, all ...fault) {
	t.Helper()
	gaps := map[string][]time.Duration{}
	for _, f := range all {
		s.more(t, 20)
		began := time.Now()
		gaps[f.name] = append(gaps[f.name], f.happen(t, s))
		s.well(t)
		t.Logf("%s %s: acknowledged again after %v, all well after %v", began.Format("15:04:05.000"), f.name, gaps[f.name][len(gaps[f.name])-1], since(began))
		if t.Failed() {
			return
		}
	}
	for name, took := range gaps {
		slices.Sort(took)
		t.Logf("%s: %d times, acknowledged again after %v (median), %v (most)", name, len(took), took[len(took)/2], took[len(took)-1])
	}
}

// TestCampaignClusterGrows has a fourth node come, and the leader go, while changes are
// made through all nodes.
func TestCampaignClusterGrows(t *testing.T) {
	t.Parallel()
	s := besiege(t, "dynsec", 3)
	s.more(t, 20)
	m := newMachine(t, 4)
	s.wires.lay(t, m)
	m.start(t)
	s.connect(t, m)
	began := time.Now()
	s.join(t, m)
	answered := since(began)
	s.man(t, m)
	s.machines = append(s.machines, m)
	s.await(t, "active", s.machines...)
	t.Logf("a fourth node under load: answered after %v, well after %v", answered, since(began))
	s.endure(t, fault{"leader killed", killed(true)})
	s.judge(t)
}

// sieges is how often TestCampaignClusterFaults has each fault happen:
// SIGNALBOX_TEST_SIEGES, or only some of them once.
func sieges(t *testing.T, random *rand.Rand) []fault {
	t.Helper()
	n := fromEnvironment(t, "SIGNALBOX_TEST_SIEGES", 0)
	if n == 0 {
		return []fault{faults[0], faults[2], faults[3], faults[8]}
	}
	all := slices.Repeat(faults, n)
	if only := os.Getenv("SIGNALBOX_TEST_FAULT"); only != "" {
		all = slices.DeleteFunc(all, func(f fault) bool { return f.name != only })
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// TestCampaignClusterFaults kills nodes, cuts them off, and takes their data, while changes
// are made through all of them.
func TestCampaignClusterFaults(t *testing.T) {
	t.Parallel()
	s := besiege(t, "dynsec", 3)
	s.endure(t, sieges(t, s.random)...)
	s.judge(t)
}
