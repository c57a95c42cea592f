package brokertest_test

import (
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// TestOracle asks a real Mosquitto and the embedded broker the same thousands of questions.
func TestOracle(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	s := brokertest.Mosquitto(t)
	oracle := brokertest.Subject{Broker: dial(t, s.Target()), URL: s.URL,
		AdminUsername: s.AdminUsername, AdminPassword: s.AdminPassword}
	b, target := embed(t)
	subject := brokertest.Subject{Broker: b, URL: target.URL,
		AdminUsername: target.Username, AdminPassword: target.Password}
	brokertest.Agree(t, seed, oracle, subject)
}
