// Package brokertest is what tests of brokers share: Run, the suite of cases
// that every kind of broker must pass; Mosquitto, which starts a real one;
// Proxy, a connection to a broker that breaks on demand; and certificates.
//
// Only tests import it. It must not import anything of this module but broker
// and broker/dynsec: the kinds of broker come in through Subject.
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
