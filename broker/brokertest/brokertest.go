// Package brokertest has what tests of brokers share: Run, the suite of cases that every kind of
// broker must pass; Mosquitto, which starts a real one; Proxy, which injects faults into
// connections; and certificates.
//
// Only tests import it. Of this module it imports broker, broker/mqtt/mqtttest, scripts/process and
// scripts/suite only: a Subject provides the broker.
package brokertest

import (
	"testing"

	"signalbox/scripts/suite"
)

// WaitFor is suite.WaitFor.
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	suite.WaitFor(t, what, holds)
}
