package crash

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// The knobs: how often the broker is ended in each campaign, and the seed of
// what is left to chance (the clock of the machine is not).
const (
	roundsKnob = "SIGNALBOX_CRASH_ROUNDS"
	seedKnob   = "SIGNALBOX_CRASH_SEED"
)

// TestKill_nine kills the program in the middle of everything.
func TestKill_nine(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"full", "process"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			s := newSignalbox(t, "SIGNALBOX_BROKER_DURABILITY="+durability)
			newCampaign(s, seed(t), syscall.SIGKILL).play(t, int(knob(t, roundsKnob, 6)))
		})
	}
}

// TestTheClients_with_Mosquitto shows that the clients and the judgement are
// right: there is nothing to be complained about in Mosquitto, which writes
// everything down when it is asked to end. But Mosquitto 2.0.11 sends one of the
// messages that wait for a client before the others; and after a restart it sends
// some of QoS 2 again that it had released before, so it is ended gently.
func TestTheClients_with_Mosquitto(t *testing.T) {
	t.Parallel()
	c := newCampaign(newMosquitto(t), seed(t), syscall.SIGTERM)
	c.ledger.disorderly, c.gently = true, true
	c.play(t, 4)
}

// seed gives the one that is set, or a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	seed := knob(t, seedKnob, uint64(time.Now().UnixNano()))
	t.Logf("%s=%d", seedKnob, seed)
	return seed
}

func knob(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
