// Package systemtest runs the program as an operator does: the binary itself,
// as a process with a data directory, spoken to over HTTP and MQTT, with
// Mosquitto's own tools beside it.
//
// It holds tests only. It must not reach into the program: what it needs to
// know it asks through the command line, the API, the broker or the files.
package systemtest

import (
	"testing"

	"signalbox/scripts/process"
)

func TestMain(m *testing.M) { process.Main(m) }
