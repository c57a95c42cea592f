package bridges_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/bridges"
)

// TestLeave checks that a delivery in flight finishes within its timeout when the service ends,
// and that later messages are taken and delivered by the next engine.
func TestLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		r.Set(doc(conn("c")))
		synctest.Wait()
		k.Target("t").HandleBatches(func(ctx context.Context, _ []*bridges.Entry, _ []bridges.Result) error {
			<-ctx.Done()
			return ctx.Err()
		})
		publishTexts(r.Broker, "a/b", "1")
		synctest.Wait()
		begun := time.Now()
		r.Host.Leave()
		publishTexts(r.Broker, "a/b", "2")
		elapse(5 * time.Second)
		synctest.Wait()
		if _, settled := r.Broker.Outcomes(); len(settled) != 2 || slices.ContainsFunc(settled, func(err error) bool { return err != nil }) {
			t.Errorf("settled %v, want both messages", settled)
		}
		k.Target("t").HandleBatches(nil)
		r.Restart()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the end took %v", took)
		}
		synctest.Wait()
		if got := k.Target("t").Payloads(); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("got %q", got)
		}
	})
}
