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

// The environment variables of the random test: how many scripts to play, with
// which seed to begin, and how many steps each has.
const (
	seedsVariable = "CONFORMANCE_RANDOM_SEEDS"
	firstVariable = "CONFORMANCE_RANDOM_FIRST"
	stepsVariable = "CONFORMANCE_RANDOM_STEPS"
)

// TestRandom plays the same random scripts to our broker and to Mosquitto, step
// by step, and wants the same to come of it; see comparison for what counts. A
// script that shows a difference is shortened before it is shown.
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
			d := &duel{ours: ours.tcp, theirs: theirs.tcp}
			s := write(uint64(seed), steps)
			if faults := d.fight(s); len(faults) > 0 {
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

// duel is two brokers that are given the same scripts.
type duel struct {
	ours, theirs string // host:port
}

// fight plays a script until the brokers differ, and tells how.
func (d *duel) fight(s script) (faults []string) {
	mark := fmt.Sprintf("r%d", scenes.Add(1))
	ours, theirs := assemble(d.ours, mark), assemble(d.theirs, mark)
	defer ours.disband()
	defer theirs.disband()
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

// said are the messages of a step.
func (s step) said() []scriptedMessage {
	if s.will != nil {
		return []scriptedMessage{*s.will}
	}
	return s.messages
}

// shorten leaves out of a script what is not needed for a difference, in ever
// smaller pieces, as long as that does not take too many attempts.
func (d *duel) shorten(s script, faults []string) (script, []string) {
	attempts := 150
	for size := len(s) / 2; size > 0; size /= 2 {
		for at := 0; at+size <= len(s) && attempts > 0; attempts-- {
			without := slices.Concat(s[:at], s[at+size:])
			if found := d.fight(without); len(found) > 0 {
				s, faults = without, found
			} else {
				at += size
			}
		}
	}
	return s, faults
}
