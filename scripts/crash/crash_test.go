package crash

import (
	"syscall"
	"testing"

	"signalbox/scripts/suite"
)

// roundsVariable is how often the broker is ended in each campaign.
const roundsVariable = "SIGNALBOX_CRASH_ROUNDS"

// TestCampaignKill kills the program in the middle of everything.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"full", "process"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			s := newSignalbox(t, "SIGNALBOX_BROKER_DURABILITY="+durability)
			newCampaign(s, suite.Seed(t), syscall.SIGKILL).run(t, suite.FromEnvironment(t, roundsVariable, 6))
		})
	}
}

// TestCampaignClientsWithMosquitto shows that the clients and the checkers are
// right: they find no violation in Mosquitto, which stores everything when it is
// asked to end. But Mosquitto 2.0.11 sends one of the messages that are queued for
// a client before the others; and after a restart it sends some of QoS 2 again that
// it had released before, so it is ended when nothing is in flight.
func TestCampaignClientsWithMosquitto(t *testing.T) {
	t.Parallel()
	c := newCampaign(newMosquitto(t), suite.Seed(t), syscall.SIGTERM)
	c.expected.ignoreOrder, c.quiesce = true, true
	c.run(t, 4)
}
