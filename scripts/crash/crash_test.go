package crash

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"signalbox/scripts/suite"
)

// roundsKnob is how often the broker is ended in each campaign.
const roundsKnob = "SIGNALBOX_CRASH_ROUNDS"

// TestCampaignKill kills the program in the middle of everything.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"full", "process"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			s := newSignalbox(t, "SIGNALBOX_BROKER_DURABILITY="+durability)
			newCampaign(s, suite.Seed(t), syscall.SIGKILL).play(t, int(knob(t, roundsKnob, 6)))
		})
	}
}

// TestCampaignClientsWithMosquitto shows that the clients and the judgement are
// right: there is nothing to be complained about in Mosquitto, which writes
// everything down when it is asked to end. But Mosquitto 2.0.11 sends one of the
// messages that wait for a client before the others; and after a restart it sends
// some of QoS 2 again that it had released before, so it is ended gently.
func TestCampaignClientsWithMosquitto(t *testing.T) {
	t.Parallel()
	c := newCampaign(newMosquitto(t), suite.Seed(t), syscall.SIGTERM)
	c.ledger.disorderly, c.gently = true, true
	c.play(t, 4)
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
