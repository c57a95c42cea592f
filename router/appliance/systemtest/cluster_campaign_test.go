package systemtest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// faultCampaign is a cluster under load while its nodes fail: clients are created
// through every node, some through several concurrently, and permissions are revoked
// and checked. In the end no acknowledged change may be missing on any node.
type faultCampaign struct {
	*cluster
	network     *suite.Network
	expected    *expectedState // of the created objects
	history     *history
	revocations *revocations
	random      *rand.Rand
	ctx         context.Context // of the work
	stop        context.CancelFunc
	work        sync.WaitGroup

	write  func(t testing.TB, m *machine, name string) bool // creates an object through a machine, and reports whether that was acknowledged
	others []func(t testing.TB, m *machine)                 // other operations through a machine
	forget func(m *machine)                                 // is called before a machine loses its data

	mu      sync.Mutex // guards the fields below
	running map[int]*machine
	groups  int // of objects so far
}

// startFaultCampaign creates a cluster whose network can be cut, and starts the load.
func startFaultCampaign(t testing.TB, mode string, n int, prepare ...func(testing.TB, *machine)) *faultCampaign {
	t.Helper()
	s := newFaultCampaign(t)
	s.history, s.revocations = &history{began: time.Now(), random: s.random}, newRevocations(s.random)
	s.write = func(t testing.TB, m *machine, name string) bool { return m.try(t, s.expected, name) }
	s.others = []func(testing.TB, *machine){s.history.operate, s.revocations.recheck}
	s.forget = s.revocations.forget
	s.cluster = startExternalCluster(t, n, append(prepare, s.attach)...)
	s.mode = mode
	s.cluster.create(t)
	first := s.machines[0]
	first.api.must(t, "POST", first.api.at("/clients"), object{"username": revocationUser, "password": passwordOf(revocationUser)}, nil)
	if !s.revocations.grantBatch(t, first) {
		t.Fatal("no permissions were granted")
	}
	awaitSame(t, s.machines...)
	s.start(t)
	s.work.Go(func() { s.revokeRepeatedly(t) })
	return s
}

// newFaultCampaign returns a campaign without a cluster and without load.
func newFaultCampaign(t testing.TB) *faultCampaign {
	t.Helper()
	return &faultCampaign{network: suite.NewNetwork(t), expected: newExpectedState(0), running: map[int]*machine{}, random: suite.Rand(t)}
}

// start starts the load through all machines.
func (s *faultCampaign) start(t testing.TB) {
	t.Helper()
	s.ctx, s.stop = context.WithCancel(t.Context())
	t.Cleanup(s.end)
	for _, m := range s.machines {
		s.writeThrough(t, m)
	}
}

// end stops the load and waits for it.
func (s *faultCampaign) end() {
	s.stop()
	s.work.Wait()
}

// pace is the minimum interval between two operations of one worker, which keeps the
// machine busy but not overloaded.
const pace = 25 * time.Millisecond

// every calls do repeatedly until the campaign or the process ends.
func (s *faultCampaign) every(p *service, do func(n int)) {
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

// writeThrough writes through the current process of a machine, until that ends.
func (s *faultCampaign) writeThrough(t testing.TB, m *machine) {
	t.Helper()
	now := *m // a copy: the machine may be restarted in the meantime
	prefix := s.group(m)
	s.mu.Lock()
	s.running[m.id] = &now
	s.mu.Unlock()
	s.work.Go(func() {
		s.every(now.run, func(n int) { s.write(t, &now, fmt.Sprintf("%s-%d", prefix, n)) })
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[now.id] == &now {
			delete(s.running, now.id)
		}
	})
	for _, operate := range s.others {
		s.work.Go(func() { s.every(now.run, func(int) { operate(t, &now) }) })
	}
}

// revokeRepeatedly revokes permissions through the running machines.
func (s *faultCampaign) revokeRepeatedly(t testing.TB) {
	next := time.NewTicker(4 * pace)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-s.ctx.Done():
			return
		}
		if all := s.runningMachines(); len(all) > 0 {
			s.revocations.revokeNext(t, all[s.random.IntN(len(all))], all)
		}
	}
}

// runningMachines returns the machines through which the load goes now.
func (s *faultCampaign) runningMachines() []*machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.running))
}

// awaitAcknowledged waits until that many more objects are acknowledged.
func (s *faultCampaign) awaitAcknowledged(t testing.TB, n int) {
	t.Helper()
	from := s.expected.acknowledgedBeyond()
	suite.WaitFor(t, "work goes on", func() bool { return s.expected.acknowledgedBeyond() >= from+n })
}

// recovery waits until machines acknowledge again, and returns how long that took. It
// sends new requests continuously: one that was sent before a failure may wait for a
// response that is lost.
func (s *faultCampaign) recovery(t testing.TB, machines ...*machine) time.Duration {
	t.Helper()
	began := time.Now()
	for _, m := range machines {
		s.retryUntilAcknowledged(t, m)
	}
	return since(began)
}

func (s *faultCampaign) retryUntilAcknowledged(t testing.TB, m *machine) {
	t.Helper()
	now, prefix := *m, s.group(m)
	acknowledged := make(chan struct{})
	var once sync.Once
	again := time.NewTicker(2 * pace)
	defer again.Stop()
	end := time.After(suite.HangLimit)
	for n := 1; ; n++ {
		s.work.Go(func() {
			if s.write(t, &now, fmt.Sprintf("%s-%d", prefix, n)) {
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

// group returns a prefix for objects that are created through a machine.
func (s *faultCampaign) group(m *machine) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.groups++
	return fmt.Sprintf("g%d-%d", s.groups, m.id)
}

// restart starts machines that were killed, and writes through them again.
func (s *faultCampaign) restart(t testing.TB, machines ...*machine) {
	t.Helper()
	startAll(t, machines...)
	for _, m := range machines {
		s.writeThrough(t, m)
	}
}

// awaitHealthy waits until all nodes are healthy, and have a vote: one that has joined may lack data yet, and then the
// others cannot do without one of them.
func (s *faultCampaign) awaitHealthy(t testing.TB) {
	t.Helper()
	waitLong(t, "all nodes are healthy", func() bool { return s.info(t).State == "active" && s.allVote(t) })
}

// allVote reports whether all nodes have a vote.
func (s *faultCampaign) allVote(t testing.TB) bool {
	t.Helper()
	got := s.status(t).Data
	return got != nil && len(got.Nodes) == len(s.machines) && !slices.ContainsFunc(got.Nodes, func(n struct{ ID, Role int }) bool { return n.Role != roleVoter })
}

// waitLong is suite.WaitFor for what the console detects: to a broker that was lost
// several times within a minute it reconnects only after half a minute.
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

// check stops the load and compares all nodes with what they acknowledged.
func (s *faultCampaign) check(t testing.TB) {
	t.Helper()
	s.network.Heal()
	s.awaitHealthy(t)
	s.end()
	s.history.check(t)
	for i := range sharedClients { // checked elsewhere
		s.expected.pending(sharedClientName(i))
	}
	s.expected.pending(revocationUser)
	s.expected.pending(worker)
	wantKept(t, s.expected, s.machines...)
	serving := s.machines
	if s.mode == "full" {
		leader, _ := s.leading(t)
		serving = []*machine{leader}
	}
	s.revocations.checkAll(t, serving...)
}

// runFaults causes faults, and waits until the cluster is healthy after each.
func (s *faultCampaign) runFaults(t testing.TB, all ...fault) {
	t.Helper()
	gaps := map[string][]time.Duration{}
	for _, f := range all {
		s.awaitAcknowledged(t, 20)
		began := time.Now()
		gaps[f.name] = append(gaps[f.name], f.happen(t, s))
		s.awaitHealthy(t)
		t.Logf("%s %s: acknowledged again after %v, all healthy after %v", began.Format("15:04:05.000"), f.name, gaps[f.name][len(gaps[f.name])-1], since(began))
		if t.Failed() {
			return
		}
	}
	for name, took := range gaps {
		slices.Sort(took)
		t.Logf("%s: %d times, acknowledged again after %v (median), %v (most)", name, len(took), took[len(took)/2], took[len(took)-1])
	}
}

// TestCampaignClusterGrows adds a fourth node and kills the leader, while changes are
// made through all nodes.
func TestCampaignClusterGrows(t *testing.T) {
	t.Parallel()
	s := startFaultCampaign(t, "dynsec", 3)
	s.awaitAcknowledged(t, 20)
	m := newMachine(t, 4)
	s.attach(t, m)
	m.start(t)
	s.connect(t, m)
	began := time.Now()
	s.join(t, m)
	answered := since(began)
	s.writeThrough(t, m)
	s.machines = append(s.machines, m)
	s.await(t, "active", s.machines...)
	t.Logf("a fourth node under load: answered after %v, healthy after %v", answered, since(began))
	s.runFaults(t, fault{name: "leader killed", happen: killed(true)})
	s.check(t)
}

// campaignFaults returns the faults of TestCampaignClusterFaults: each
// SIGNALBOX_TEST_FAULT_ROUNDS times, or only some of them once.
func campaignFaults(t *testing.T, random *rand.Rand, kinds []fault) []fault {
	t.Helper()
	n := suite.FromEnvironment(t, "SIGNALBOX_TEST_FAULT_ROUNDS", 0)
	if n == 0 {
		return []fault{faults[0], faults[2], faults[3], faults[8]}
	}
	all := slices.Repeat(kinds, n)
	if only := os.Getenv("SIGNALBOX_TEST_FAULT"); only != "" {
		all = slices.DeleteFunc(all, func(f fault) bool { return f.name != only })
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// TestCampaignClusterFaults kills nodes, isolates them, and deletes their data, while
// changes are made through all of them.
func TestCampaignClusterFaults(t *testing.T) {
	t.Parallel()
	s := startFaultCampaign(t, "dynsec", 3)
	s.runFaults(t, campaignFaults(t, s.random, faults)...)
	s.check(t)
}
