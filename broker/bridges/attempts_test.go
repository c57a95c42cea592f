package bridges_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/bridges"
)

// TestTimeRanOut has a connector deliver a part of a batch: it continues at once, and no entry
// counts as failed.
func TestTimeRanOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		k.Target("t").HandleBatches(func(_ context.Context, _ []*bridges.Entry, results []bridges.Result) error {
			results[0].State = bridges.Delivered
			return nil
		})
		r.Set(doc(conn("c", `"maxAttempts":1`)))
		begun := time.Now()
		publishTexts(r.Broker, "a/b", numbers(0, 20)...)
		synctest.Wait()
		if got := k.Target("t").Payloads(); !slices.Equal(got, numbers(0, 20)) || time.Since(begun) > 0 {
			t.Errorf("got %q after %v, want all at once", got, time.Since(begun))
		}
		if s := r.Status("c"); s.Error != "" || s.Stats.Retries != 0 || s.Stats.Rejected != 0 {
			t.Errorf("the state is %+v %+v", s, *s.Stats)
		}
	})
}

// TestNotTried checks that only entries with a reason count as failed.
func TestNotTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		k.Target("t").SetUnavailable(errors.New("away"))
		k.Target("t").HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
			if string(batch[0].Payload) == "stuck" {
				results[0].Reason = "it does not fit"
				return errors.New("one of them failed")
			}
			for i := range results {
				results[i].State = bridges.Delivered
			}
			return nil
		})
		r.Set(doc(conn("c", `"maxAttempts":1`)))
		publishTexts(r.Broker, "a/b", "stuck", "1", "2")
		synctest.Wait()
		k.Target("t").SetUnavailable(nil)
		elapse(time.Minute)
		synctest.Wait()
		if got := k.Target("t").Payloads(); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("got %q", got)
		}
		if l := r.DeadLetters("c"); len(l) != 1 || l[0].Payload != "stuck" || l[0].Reason != "given up after the first attempt: it does not fit" {
			t.Errorf("dead letters are %+v", l)
		}
	})
}
