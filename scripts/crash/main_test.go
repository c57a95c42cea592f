// Package crash kills the broker, again and again, while clients publish,
// subscribe, disconnect, reconnect and take over their own sessions, and checks
// what it has acknowledged: nothing lost, nothing invented, QoS 2 exactly once,
// the order of each publisher kept, retained messages as they were last set, and
// everything in the streams that keep it.
//
// It holds tests only: of the binary, and of its own clients with Mosquitto. It
// must not reach into the program. DESIGN.md describes what the checks rest on.
package crash

import (
	"testing"

	"signalbox/scripts/process"
)

func TestMain(m *testing.M) { process.Main(m) }
