package flood

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// The knobs of the flood: how long it lasts, in seconds; by how much the crowds
// are larger; and the mobs to let loose, as a regular expression over names.
const (
	secondsKnob = "SIGNALBOX_FLOOD_SECONDS"
	scaleKnob   = "SIGNALBOX_FLOOD_SCALE"
	mobsKnob    = "SIGNALBOX_FLOOD_MOBS"
)

// The mobs share these addresses, so that the limits for one address bind.
var mobAddresses = []string{"127.0.0.3", "127.0.0.4"}

// TestCampaignFlood lets all mobs loose at once. Two pairs of clients that behave, and
// newcomers, are served all the while; memory stays within what the
// configuration allows; and when the mobs are gone, so is all of theirs.
func TestCampaignFlood(t *testing.T) {
	s := serve(t, configure(t, limits))
	admitUsers(t, s)
	quiet := observe(t.Context(), s, time.Second)
	before, rest := s.memory(t, "VmRSS"), goroutines(t, s)

	callBack := unleash(t, horde{
		TCP: s.MQTT, WS: s.WebSocket, Scale: knob(t, scaleKnob, 1), Only: os.Getenv(mobsKnob), Addresses: mobAddresses,
	})
	loud := observe(t.Context(), s, time.Duration(knob(t, secondsKnob, 6))*time.Second)
	t.Logf("the mobs:\n%s", callBack())
	peak := s.memory(t, "VmHWM")

	wantServed(t, quiet, loud)
	t.Logf("memory: %s before, at most %s, of %s allowed", mib(before), mib(peak), mib(before+allowance))
	if peak > before+allowance {
		t.Errorf("memory grew from %s to %s, more than the configuration allows: %s", mib(before), mib(peak), mib(allowance))
	}
	wantRest(t, s, rest)
	if err := s.End(syscall.SIGTERM); err != nil || s.ExitCode() != 0 {
		t.Errorf("stopped with exit code %d: %v\n%s", s.ExitCode(), err, s.Tail())
	}
}

// slower is how many times slower a message, or a log-in, may be under flood
// than in quiet, half of the time. The mobs use what processors there are, and
// so may other tests: this is generous, but whoever has to wait for a client that
// does not read fails it by far.
const slower = 2000

// wantServed holds those who behave under flood against how they fared before.
func wantServed(t *testing.T, quiet, loud map[string]served) {
	t.Helper()
	for name, q := range quiet {
		l := loud[name]
		t.Logf("%s: messages in quiet %v; under flood %v", name, q.delivered, l.delivered)
		t.Logf("%s: log-ins in quiet %v; under flood %v", name, q.admitted, l.admitted)
		if q.err != nil || l.err != nil {
			t.Errorf("%s: in quiet %v, under flood %v", name, q.err, l.err)
		}
		if a, b := q.delivered.quantile(.5), l.delivered.quantile(.5); b > slower*a {
			t.Errorf("%s: half of the messages took more than %v under flood, %v in quiet", name, b, a)
		}
		if a, b := q.admitted.quantile(.5), l.admitted.quantile(.5); b > slower*a {
			t.Errorf("%s: half of the log-ins took more than %v under flood, %v in quiet", name, b, a)
		}
	}
}

// allowance is what the configuration lets the flood use, in bytes.
const allowance = garbage*(maxHalfOpen*maxConnect*growth+
	addresses*maxPerAddress*(maxPacket*growth+maxQueuedBytes+perConnection)+
	retainedTopics*perRetained) + slack

const (
	addresses     = 2        // of the mobs
	growth        = 2        // a buffer doubles to hold one byte more
	garbage       = 2        // of the heap, when it is collected
	perConnection = 96 << 10 // buffers of both directions, and stacks
	perRetained   = 1 << 10  // a message, its topic, and its place in the index
	slack         = 64 << 20 // SQLite's cache, and what is being committed
)

// goroutines counts those of the service.
func goroutines(t *testing.T, s *server) float64 {
	t.Helper()
	n, err := s.metric(t.Context(), "go_goroutines")
	if err != nil || n == 0 {
		t.Fatalf("go_goroutines: %v %v", n, err)
	}
	return n
}

// wantRest waits until the service is as it was before anybody came.
func wantRest(t *testing.T, s *server, goroutines float64) {
	t.Helper()
	suite.Eventually(t, func() error {
		n, err := s.metric(t.Context(), "go_goroutines")
		if err == nil && n > goroutines {
			err = fmt.Errorf("%v goroutines, %v before the flood", n, goroutines)
		}
		return err
	})
}
