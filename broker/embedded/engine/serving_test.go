package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestServing waits until the sessions are restored, and gets a context that ends with them.
func TestServing(t *testing.T) {
	t.Parallel()
	b := prepare(t, t.TempDir())
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := b.Serving(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a suspended engine: got %v, want the end of the context", err)
	}
	served := make(chan context.Context, 1)
	go func() {
		serving, err := b.Serving(t.Context())
		if err != nil {
			t.Error(err)
		}
		served <- serving
	}()
	b.resume()
	var first context.Context
	select {
	case first = <-served:
	case <-time.After(suite.HangLimit):
		t.Fatal("nothing is said of an engine that was resumed")
	}
	if first.Err() != nil {
		t.Error("it is over while the engine serves")
	}
	b.suspend()
	if first.Err() == nil {
		t.Error("it is not over although the engine was suspended")
	}
	b.resume()
	second, err := b.Serving(ended)
	if err != nil || second.Err() != nil || first.Err() == nil {
		t.Errorf("resumed again: got %v", err)
	}
}
