package ranking_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/ranking"
)

var quiet = slog.New(slog.DiscardHandler)

// TestSharedRanking ranks once for simultaneous callers, and does not keep one that leaves.
func TestSharedRanking(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shared ranking.Shared[int]
		calls := 0
		rank := func(ctx context.Context) (int, error) {
			calls++
			<-time.After(time.Second)
			return calls, ctx.Err()
		}
		first, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := shared.Do(first, "a", quiet, rank)
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves gets %v", err)
		}
		for range 2 {
			if got, err := shared.Do(t.Context(), "a", quiet, rank); got != 1 && got != 2 || err != nil || got != calls {
				t.Errorf("got %d and %v after %d calls", got, err, calls)
			}
		}
		if calls != 2 {
			t.Errorf("ranked %d times, want 2", calls)
		}
	})
}

func TestSharedRankingSurvivesAPanic(t *testing.T) {
	t.Parallel()
	var shared ranking.Shared[int]
	if _, err := shared.Do(t.Context(), "a", quiet, func(context.Context) (int, error) { panic("deliberate") }); err == nil {
		t.Error("a panic is no error")
	}
}
