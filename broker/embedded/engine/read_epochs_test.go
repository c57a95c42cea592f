package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReadEpochs waits until every read that began before has ended, regardless of later ones.
func TestReadEpochs(t *testing.T) {
	t.Parallel()
	s := newReadEpochs()
	if s.enter(1) != nil {
		t.Error("there are sections though nobody asks")
	}
	s.on.Store(true)
	var begun, ended [8]atomic.Int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i := range begun {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				u := s.enter(uint64(i))
				begun[i].Add(1)
				ended[i].Add(1)
				u.exit()
			}
		})
	}
	for range 300 {
		var before [len(begun)]int64
		for i := range begun {
			before[i] = begun[i].Load()
		}
		if err := s.awaitReaders(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range ended {
			if n := ended[i].Load(); n < before[i] {
				t.Fatalf("passed with %d sections ended of %d", n, before[i])
			}
		}
	}
	close(stop)
	running.Wait()
}

// TestReadersGivenUp waits again for readers that an earlier call gave up waiting for.
func TestReadersGivenUp(t *testing.T) {
	t.Parallel()
	s := newReadEpochs()
	s.on.Store(true)
	u := s.enter(3)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if err := s.awaitReaders(over); !errors.Is(err, context.Canceled) {
			t.Fatalf("passed a section that goes on: %v", err)
		}
		s.enter(3).exit()
	}
	u.exit()
	if err := s.awaitReaders(t.Context()); err != nil {
		t.Fatal(err)
	}
}
