package brokertest_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"signalbox/broker/brokertest"
)

// TestOracle asks a real Mosquitto and the embedded broker the same thousands
// of questions. ORACLE_SEED repeats a run.
func TestOracle(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	if given, ok := os.LookupEnv("ORACLE_SEED"); ok {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("ORACLE_SEED: %v", err)
		}
	}
	s := brokertest.Mosquitto(t)
	oracle := brokertest.Subject{Broker: dial(t, s.Target()), URL: s.URL,
		AdminUsername: s.AdminUsername, AdminPassword: s.AdminPassword}
	b, target := embed(t)
	subject := brokertest.Subject{Broker: b, URL: target.URL,
		AdminUsername: target.Username, AdminPassword: target.Password}
	brokertest.Agree(t, seed, oracle, subject)
}
