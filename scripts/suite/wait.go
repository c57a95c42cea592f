package suite

import (
	"testing"
	"time"
)

// WaitFor waits until the condition holds and fails the test if it does not in time.
// What completes the sentence "waited in vain until ...".
func WaitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !poll(holds) {
		t.Fatalf("waited in vain until %s", what)
	}
}

// Eventually is WaitFor for a condition that returns why it does not hold yet.
func Eventually(t testing.TB, condition func() error) {
	t.Helper()
	var err error
	if !poll(func() bool { err = condition(); return err == nil }) {
		t.Fatalf("waited in vain: %v", err)
	}
}

// poll reports whether the condition holds before HangLimit has passed.
func poll(holds func() bool) bool {
	deadline := time.NewTimer(HangLimit)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}
