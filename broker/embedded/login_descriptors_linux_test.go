package embedded

import (
	"fmt"
	"os"
	"testing"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// TestWaitingLoginsKeepNoDescriptor logs many clients in at once, whose passwords have to be hashed: afterwards each
// connection has one descriptor at each end.
func TestWaitingLoginsKeepNoDescriptor(t *testing.T) { //nolint:paralleltest // it counts the descriptors of the process
	const clients = 24
	b := start(t, func(c *Config) { c.PasswordIterations = 20_000 })
	before := descriptors(t)
	var all []*device
	for range clients {
		all = append(all, dial(t, b, 4))
	}
	for i, d := range all {
		d.SendBytes(connectBytes(4, as(adminName, adminPassword), withID(fmt.Sprint("c", i)))...)
	}
	for _, d := range all {
		if p := d.Want(packet.Connack); p.Reason != 0 {
			t.Errorf("reason %d", p.Reason)
		}
	}
	suite.WaitFor(t, "each connection has two descriptors", func() bool { return descriptors(t)-before <= 2*clients+8 })
}

// descriptors returns how many descriptors the process has.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
