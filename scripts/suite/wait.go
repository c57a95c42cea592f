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

// The pauses between two checks of a condition. They become longer, as a check can be a request, which
// takes processor time from what the test waits for.
const (
	minPause = 5 * time.Millisecond
	maxPause = 100 * time.Millisecond
)

// poll reports whether the condition holds before HangLimit has passed.
func poll(holds func() bool) bool {
	deadline := time.NewTimer(HangLimit)
	defer deadline.Stop()
	for pause := minPause; !holds(); pause = min(2*pause, maxPause) {
		select {
		case <-time.After(pause):
		case <-deadline.C:
			return false
		}
	}
	return true
}
