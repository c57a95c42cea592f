package sessions_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/cluster/sessions"
	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

// simulationsVariable is the environment variable with the number of new scenarios of TestCampaignSimulation.
const simulationsVariable = "SIGNALBOX_SIMULATIONS"

// TestSimulation runs random scenarios; see simulation.
func TestSimulation(t *testing.T) {
	t.Parallel()
	simulate(t, 0, 24)
}

// TestCampaignSimulation runs more of them; with simulationsVariable, as many new ones as that states.
func TestCampaignSimulation(t *testing.T) {
	t.Parallel()
	first, count := uint64(24), uint64(60)
	if text := os.Getenv(simulationsVariable); text != "" {
		var err error
		count, err = strconv.ParseUint(text, 10, 64)
		check(t, err)
		first = suite.Seed(t) >> 32 << 20
	}
	simulate(t, first, count)
}

// simulate runs scenarios with consecutive seeds, and logs how fast that was.
func simulate(t *testing.T, first, count uint64) {
	t.Helper()
	var scenarios, simulated atomic.Int64
	began := time.Now()
	t.Cleanup(func() {
		took := time.Since(began)
		t.Logf("%d scenarios in %v, %.0f a minute, with %.0f simulated hours a minute",
			scenarios.Load(), took.Round(time.Second/10), float64(scenarios.Load())/took.Minutes(), time.Duration(simulated.Load()).Hours()/took.Minutes())
	})
	for seed := first + 1; seed <= first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				began := time.Now()
				newSimulation(t, seed).run()
				scenarios.Add(1)
				simulated.Add(int64(time.Since(began)))
			})
		})
	}
}

// simulation is a random scenario of a cluster in virtual time: clients with persistent sessions connect to
// one node after the other, publish and subscribe, while requests are lost, paths between nodes are
// blocked and nodes stop. At the end all nodes run and reach each other, and what DESIGN.md promises is
// checked.
//
// What it simulates: three to five nodes with real engines, stores and mesh links, whose network and clock are
// virtual. A store does not fail, but a node may be killed: what it has not stored by then is lost.
//
// The seed fixes the number of nodes and clients, what each client and each fault does next and how long
// that lasts, and which requests are lost at an instant. It does not fix the order in which goroutines run
// that are ready at the same virtual time, nor the keys of maps. Steps thus happen in the same order if they
// are at different times, which random delays of requests and links ensure for most, and a seed usually but
// not always fails again. Run it some hundred times: go test -run 'TestSimulation/^7$' -count 300.
type simulation struct {
	*cluster
	seed      uint64
	ends      time.Time // of faults, and of what clients do by themselves
	discarded atomic.Int64
	lossy     lossy
	actors    sync.WaitGroup
	readers   sync.WaitGroup // of the clients' connections, and of what is observed

	mu       sync.Mutex // guards what follows and the clients; held briefly
	clients  []*simulatedClient
	messages []*simulatedMessage
	attempts int64                    // connections that clients have opened
	stops    []time.Time              // when a node began to stop
	faults   map[int][]*period        // of each node
	stopping map[int]bool             // nodes that admit no clients
	asleep   map[int]map[string]int64 // creation times of the sessions of nodes that are down
	storing  map[int]bool             // the nodes that have messages in their backlogs, as far as is known
	paths    map[link]*path
}

// period is a period of time. It is not over if to is zero.
type period struct{ from, to time.Time }

// overlaps reports whether a period overlaps another one.
func (p *period) overlaps(from, to time.Time) bool {
	return !p.from.After(to) && (p.to.IsZero() || !p.to.Before(from))
}

// simulatedTime is how long clients and faults act.
const simulatedTime = 90 * time.Second

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{seed: seed, faults: map[int][]*period{}, stopping: map[int]bool{}, asleep: map[int]map[string]int64{}, storing: map[int]bool{}, paths: map[link]*path{}}
	random := s.random(0)
	s.lossy.seed = seed
	s.cluster = &cluster{t: t, latency: s.latency, engines: []func(*engine.Config, *engine.Parts){func(c *engine.Config, p *engine.Parts) {
		*c, p.Store = engine.DefaultConfig(), &disk{Store: p.Store}
	}}}
	t.Cleanup(func() { <-time.After(time.Second) }) // what is under way on mesh connections
	s.startNodes(3+random.IntN(3), []func(*sessions.Options){func(o *sessions.Options) {
		o.RequestTimeout, o.HandoffTimeout, o.ProbeInterval = 0, 0, 0
		o.Discarded = func(node, messages int) {
			if messages == 0 {
				return
			}
			s.discarded.Add(int64(messages))
			s.log("node %d: %d messages were discarded, as there is a newer session at node %d", o.Self, messages, node)
		}
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", o.Self)
	}})
	s.injectFaultsByLink(s.lossy.fault)
	s.ends = time.Now().Add(simulatedTime)
	for i := range 1 + random.IntN(3) {
		s.clients = append(s.clients, newSimulatedClient(s, i, random))
	}
	return s
}

// log logs a step of the scenario, for when it fails.
func (s *simulation) log(format string, args ...any) {
	s.t.Logf("%8.3f "+format, append([]any{(time.Since(s.ends) + simulatedTime).Seconds()}, args...)...)
}

// random returns the random source of an actor.
func (s *simulation) random(actor uint64) *rand.Rand { return rand.New(rand.NewPCG(s.seed, actor)) }

// run acts out the scenario and checks the outcome.
func (s *simulation) run() {
	over := make(chan struct{})
	s.readers.Go(func() { s.observe(over) })
	s.t.Cleanup(func() {
		close(over)
		for _, c := range s.clients {
			c.leave()
		}
		s.readers.Wait()
	})
	for i, c := range s.clients {
		s.actors.Go(func() { c.act(s.random(uint64(100 + i))) })
	}
	for i := range uint64(2) {
		s.actors.Go(func() { s.disturb(s.random(200 + i)) })
	}
	s.actors.Wait()
	s.log("there are no more faults")
	s.settle()
	s.check()
}

// acting reports whether the scenario is not over. It waits for some time first.
func (s *simulation) acting(pause time.Duration) bool {
	<-time.After(min(pause, time.Until(s.ends)))
	return time.Now().Before(s.ends)
}

// settle waits until all is as it will stay, and has every client receive what waits for it.
func (s *simulation) settle() {
	for _, c := range s.clients {
		c.leave()
	}
	<-time.After(5 * time.Second) // what was lost before is noticed
	until(s.t, "all nodes respond", s.allReachable)
	for _, n := range s.nodes {
		until(s.t, fmt.Sprintf("node %d is linked", n.number), n.linked)
	}
	<-time.After(time.Second) // they have sent their routes since
	for _, c := range s.clients {
		until(s.t, "the session of "+c.id+" is at one node", func() bool { return len(s.owners(c.id)) <= 1 })
	}
	random := s.random(1)
	for _, c := range s.clients {
		if c.expires() && random.IntN(2) == 0 {
			<-time.After(2 * shortExpiry)
			until(s.t, "the session of "+c.id+" has expired", func() bool { return len(s.owners(c.id)) == 0 })
		}
	}
	for _, c := range s.clients {
		c.connectAtLast(random)
	}
	for _, c := range s.clients {
		c.publish(1)
		c.publish(2)
	}
	<-time.After(time.Minute) // also for what would be sent to a client twice
	s.checkNothingWaits()
}

// checkNothingWaits checks that no client waits for an acknowledgement, and no message for a client.
func (s *simulation) checkNothingWaits() {
	for _, n := range s.nodes {
		if queued := n.Counts().Queued; queued > 0 {
			s.t.Errorf("at node %d %d messages are queued", n.number, queued)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		maps.DeleteFunc(c.pending, func(_ uint16, p pending) bool { return p.session != c.current })
		if len(c.outbox) > 0 || len(c.pending) > 0 {
			s.t.Errorf("%s waits for acknowledgements of %d messages, and for the release of %v", c.id, len(c.outbox), c.pending)
		}
	}
}

// upTo returns a random duration.
func upTo(random *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(d)))
}
