package flood

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// The variables of the flood: how long it lasts, in seconds; by how much the groups
// are larger; and the groups to run, as a regular expression over names.
const (
	secondsVariable = "SIGNALBOX_FLOOD_SECONDS"
	scaleVariable   = "SIGNALBOX_FLOOD_SCALE"
	groupsVariable  = "SIGNALBOX_FLOOD_GROUPS"
)

// The attackers share these addresses, so that the limits for one address apply.
var attackAddresses = []string{"127.0.0.3", "127.0.0.4"}

// TestCampaignFlood runs all attack groups at once. Two pairs of legitimate clients, and
// clients that log in, are served meanwhile, and many idle ones stay connected; memory stays
// within what the configuration allows; and no goroutine is left after the attack.
func TestCampaignFlood(t *testing.T) {
	n := idleConnections(t)
	s := serve(t, configure(t, limits))
	createUsers(t, s)
	idle, _ := connectIdle(t, s, n)
	quiet := runLegitimate(t.Context(), s, time.Second)
	before, rest := s.memory(t, "VmRSS"), goroutines(t, s)

	stop := startAttack(t, attack{
		TCP: s.MQTT, WS: s.WebSocket, Scale: suite.FromEnvironment(t, scaleVariable, 1), Only: os.Getenv(groupsVariable), Addresses: attackAddresses,
	})
	loud := runLegitimate(t.Context(), s, time.Duration(suite.FromEnvironment(t, secondsVariable, 6))*time.Second)
	t.Logf("the attack groups:\n%s", stop())
	peak := s.memory(t, "VmHWM")

	checkLegitimate(t, quiet, loud)
	checkIdle(t, idle)
	allowed := float64(allowance + (garbage-1)*n*perIdleConnection)
	t.Logf("%d idle connections; memory: %s before, at most %s, of %s allowed", n, mib(before), mib(peak), mib(before+allowed))
	if peak > before+allowed {
		t.Errorf("memory grew from %s to %s, more than the configuration allows: %s", mib(before), mib(peak), mib(allowed))
	}
	awaitGoroutines(t, s, rest)
	if err := s.End(syscall.SIGTERM); err != nil || s.ExitCode() != 0 {
		t.Errorf("stopped with exit code %d: %v\n%s", s.ExitCode(), err, s.Tail())
	}
}

// maxSlowdown is how many times slower the median of deliveries, or of log-ins, may be
// under attack than before. The attackers use all processors, and so may other tests:
// this is generous, but a broker that waits for a client that does not read fails it
// by far.
const maxSlowdown = 2000

// checkLegitimate compares the results of legitimate clients under attack with those
// before.
func checkLegitimate(t *testing.T, quiet, loud map[string]legitimateResults) {
	t.Helper()
	for name, q := range quiet {
		l := loud[name]
		t.Logf("%s: messages before %v; under attack %v", name, q.deliveries, l.deliveries)
		t.Logf("%s: log-ins before %v; under attack %v", name, q.logInTimes, l.logInTimes)
		if q.err != nil || l.err != nil {
			t.Errorf("%s: before %v, under attack %v", name, q.err, l.err)
		}
		if a, b := q.deliveries.quantile(.5), l.deliveries.quantile(.5); b > maxSlowdown*a {
			t.Errorf("%s: half of the messages took more than %v under attack, %v before", name, b, a)
		}
		if a, b := q.logInTimes.quantile(.5), l.logInTimes.quantile(.5); b > maxSlowdown*a {
			t.Errorf("%s: half of the log-ins took more than %v under attack, %v before", name, b, a)
		}
	}
}

// allowance is the memory that the configuration allows the attack, in bytes.
const allowance = garbage*(maxHalfOpen*maxConnect*growth+
	addresses*maxPerAddress*(maxPacket*growth+maxQueuedBytes+perConnection)+
	retainedTopics*perRetained) + slack

const (
	addresses     = 2        // of the attackers
	growth        = 2        // a buffer doubles to hold one byte more
	garbage       = 2        // of the heap, when it is collected
	perConnection = 96 << 10 // buffers of both directions, and stacks
	perRetained   = 1 << 10  // a message, its topic, and its place in the index
	slack         = 64 << 20 // SQLite's cache, and what is being committed
)

// goroutines returns the number of goroutines of the service.
func goroutines(t *testing.T, s *server) float64 {
	t.Helper()
	n, err := s.metric(t.Context(), "go_goroutines")
	if err != nil || n == 0 {
		t.Fatalf("go_goroutines: %v %v", n, err)
	}
	return n
}

// awaitGoroutines waits until the service has no more goroutines than before the
// attack.
func awaitGoroutines(t *testing.T, s *server, goroutines float64) {
	t.Helper()
	suite.Eventually(t, func() error {
		n, err := s.metric(t.Context(), "go_goroutines")
		if err == nil && n > goroutines {
			err = fmt.Errorf("%v goroutines, %v before", n, goroutines)
		}
		return err
	})
}
