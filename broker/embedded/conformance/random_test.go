package conformance

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
)

// The environment variables of the random test: the number of scripts, the first seed, and
// the number of steps of each.
const (
	seedsVariable = "CONFORMANCE_RANDOM_SEEDS"
	firstVariable = "CONFORMANCE_RANDOM_FIRST"
	stepsVariable = "CONFORMANCE_RANDOM_STEPS"
)

// TestRandom runs the same random scripts on our broker and on Mosquitto, step by step, and
// expects the same results; see comparison for what is compared. A script that shows a
// difference is shortened before it is reported.
func TestRandom(t *testing.T) {
	t.Parallel()
	theirs := &subject{kind: kindMosquitto, options: options{mosquitto: []brokertest.Option{
		brokertest.WithConfig("max_queued_messages 0"),
	}}}
	ours := &subject{kind: kindEmbedded}
	theirs.start(t)
	ours.start(t)
	first, steps := fromEnvironment(t, firstVariable, 1), fromEnvironment(t, stepsVariable, 150)
	for seed := first; seed < first+fromEnvironment(t, seedsVariable, 20); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			d := &differentialTest{ours: ours.tcp, theirs: theirs.tcp}
			s := generate(uint64(seed), steps)
			if faults := d.run(s); len(faults) > 0 {
				short, faults := d.shorten(s, faults)
				t.Errorf("%s\nafter the last of these steps, with seed %d:\n%s", strings.Join(faults, "\n"), seed, short)
			}
		})
	}
}

func fromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// differentialTest is two brokers that run the same scripts.
type differentialTest struct {
	ours, theirs string // host:port
}

// run runs a script until the brokers differ, and returns the differences.
func (d *differentialTest) run(s script) (faults []string) {
	mark := fmt.Sprintf("r%d", scenes.Add(1))
	ours, theirs := newClientGroup(d.ours, mark), newClientGroup(d.theirs, mark)
	defer ours.close()
	defer theirs.close()
	published := map[string]origin{}
	for i, st := range s {
		for _, m := range st.said() {
			published[m.payload] = origin{st.client, m.qos}
		}
		got, want := ours.do(st), theirs.do(st)
		if faults := append(ours.breaches(), compare(st, published, got, want)...); len(faults) > 0 {
			return append([]string{fmt.Sprintf("step %d (%v):", i, st)}, faults...)
		}
	}
	return nil
}

// said returns the messages of a step.
func (s step) said() []scriptedMessage {
	if s.will != nil {
		return []scriptedMessage{*s.will}
	}
	return s.messages
}

// shorten removes from a script what is not needed for a difference, in ever smaller
// pieces, as long as that does not take too many attempts.
func (d *differentialTest) shorten(s script, faults []string) (script, []string) {
	attempts := 150
	for size := len(s) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s) && attempts > 0; attempts-- {
			without := slices.Concat(s[:at], s[at+size:])
			if found := d.run(without); len(found) > 0 {
				s, faults = without, found
			} else {
				at += size
			}
		}
	}
	return s, faults
}
