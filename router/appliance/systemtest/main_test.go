// Package systemtest runs the program as an operator does: the binary itself, as a
// process with a data directory, used over HTTP and MQTT, next to Mosquitto's own
// tools.
//
// It has tests only. It must not access the program's internals: it uses the command
// line, the API, the broker and the files.
package systemtest

import (
	"testing"

	"signalbox/router/console/browsertest"
	"signalbox/scripts/process"
)

func TestMain(m *testing.M) { process.Main(m, browsertest.Stop) }
