package brokertest_test

import (
	"testing"

	"signalbox/scripts/suite"
)

// TestMain fails if a goroutine is left after all tests.
func TestMain(m *testing.M) { suite.Main(m) }
