// Package brokertest is what tests of brokers share: Run, the suite of cases
// that every kind of broker must pass; Mosquitto, which starts a real one;
// Proxy, a connection to a broker that breaks on demand; and certificates.
//
// Only tests import it. It must not import anything of this module but broker
// and broker/dynsec: the kinds of broker come in through Subject.
package brokertest

import (
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// WaitFor waits until the condition holds and fails the test when it does not
// come true in time. What completes the sentence "waited in vain until ...".
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(suite.HangLimit)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
