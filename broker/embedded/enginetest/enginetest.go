// Package enginetest has what tests around the embedded engine share: Start, which runs
// an engine with the real store behind a TCP socket, and Client, an MQTT client that sends
// and receives single packets.
//
// Only tests import it.
package enginetest

import (
	"context"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
)

// Check fails the test on an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Until waits for a condition.
func Until(t testing.TB, timeout time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(timeout)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// Permissive is an Authority that allows everything.
type Permissive struct{}

// Authenticate accepts every client.
func (Permissive) Authenticate(_ context.Context, l *engine.Login) (engine.Admission, error) {
	return engine.Admission{Username: l.Username, Rights: Everything{}}, nil
}

// Resume returns all rights.
func (Permissive) Resume(string, string, bool) engine.Rights { return Everything{} }

// Epoch never changes.
func (Permissive) Epoch() uint64 { return 0 }

// Everything is Rights that allow everything.
type Everything struct{}

// Allowed returns true.
func (Everything) Allowed(engine.Kind, string) bool { return true }

// Revoked returns false.
func (Everything) Revoked() bool { return false }

// Release does nothing.
func (Everything) Release() {}

// blind is a Watcher that ignores all events.
type blind struct{}

func (blind) Connected(engine.ClientEvent)                   {}
func (blind) Disconnected(engine.ClientEvent, byte)          {}
func (blind) Refused(engine.ClientEvent, byte, string)       {}
func (blind) Denied(engine.ClientEvent, engine.Kind, string) {}
