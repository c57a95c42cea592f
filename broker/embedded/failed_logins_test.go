package embedded

import (
	"runtime"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// TestGuessersAtOnce tries passwords on many connections of one address at once. Those
// beyond the limit are refused without verification, even if they connected before the
// first had failed; so no other client waits for them.
func TestGuessersAtOnce(t *testing.T) {
	t.Parallel()
	const guessers, most = 60, 5
	b := start(t, func(c *Config) {
		c.Limits.Exempt, c.Limits.MaxFailedLogins = nil, most
		c.Limits.FailedLoginWindow = 24 * time.Hour // however long it takes, no failure expires meanwhile
		c.PasswordIterations = 20_000               // so that they queue
	})
	guess := connectBytes(5, as(adminName, "guess"))
	var all []*device
	for range guessers {
		all = append(all, dial(t, b, 5))
	}
	for _, d := range all {
		d.SendBytes(guess...)
	}
	codes := map[byte]int{}
	for _, d := range all {
		codes[d.Want(packet.Connack).Reason]++
	}
	verified := codes[packet.NotAuthorized]
	if slots := runtime.GOMAXPROCS(0); verified < most || verified > most+slots {
		t.Errorf("%d of %d guesses were verified, want %d, and %d that were under way: %v", verified, guessers, most, slots, codes)
	}
}
