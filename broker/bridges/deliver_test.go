package bridges_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/clock"
	"signalbox/broker/clock/clocktest"
	"signalbox/broker/messaging"
)

func TestDeliver(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	r.Set(doc(conn("c")))
	publishTexts(r.Broker, "a/b", numbers(0, 1000)...)
	r.Broker.ClientPublish(qos0("a/b", "plain"))
	r.Broker.ClientPublish(qos0("b/b", "other"))
	want := append(numbers(0, 1000), "plain")
	if diff := cmp.Diff(want, arrives(t, k.Target("t"), 1001)); diff != "" {
		t.Errorf("what came (-want +got):\n%s", diff)
	}
	bridgestest.Await(t, func() error {
		waiting, settled := r.Broker.Outcomes()
		if waiting > 0 || len(settled) != 1000 || slices.ContainsFunc(settled, func(err error) bool { return err != nil }) {
			return fmt.Errorf("%d wait, %d are settled", waiting, len(settled))
		}
		return nil
	})
	r.Until("c", "all is delivered", func(s broker.BridgeStatus) bool {
		return s.IsConnected && s.Error == "" && s.QueuedMessages == 0 && s.Stats.Delivered == 1001 && s.Stats.Received == 1001
	})
}

func TestMessageIDs(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	target := k.Target("t")
	var tried []string
	target.HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
		tried = append(tried, batch[0].MessageID)
		if len(tried) == 1 {
			return errors.New("not yet")
		}
		bridgestest.All(results, bridges.Delivered, "")
		return nil
	})
	r.Set(doc(conn("c", `"retryMinInsertDelay":1`)))
	publishTexts(r.Broker, "a/b", "1")
	arrives(t, target, 1)
	publishTexts(r.Broker, "a/b", "2")
	arrives(t, target, 2)
	if len(tried) != 3 || tried[0] == "" || tried[0] != tried[1] || tried[1] == tried[2] {
		t.Errorf("message ids were %q, want the same for a repetition only", tried)
	}
}

// TestBackOff checks the delays between attempts.
func TestBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		target := k.Target("t")
		begun := time.Now()
		var at []time.Duration
		target.HandleBatches(func(_ context.Context, _ []*bridges.Entry, results []bridges.Result) error {
			at = append(at, time.Since(begun))
			if len(at) < 7 {
				return errors.New("the target is busy")
			}
			bridgestest.All(results, bridges.Delivered, "")
			return nil
		})
		r.Set(doc(conn("c", `"retryMinInsertDelay":100`, `"retryMaxInsertDelay":1000`)))
		publishTexts(r.Broker, "a/b", "1")
		synctest.Wait()
		s := r.Status("c")
		if !s.IsConnected || s.Error != "the target is busy" || s.QueuedMessages != 1 || s.Stats.Retries != 1 {
			t.Errorf("after a failure the state is %+v %+v", s, *s.Stats)
		}
		arrives(t, target, 1)
		want := []time.Duration{0, 100, 300, 700, 1500, 2500, 3500}
		for i := range want {
			want[i] *= time.Millisecond
		}
		if diff := cmp.Diff(want, at); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		synctest.Wait()
		if s := r.Status("c"); s.Error != "" || s.QueuedMessages != 0 {
			t.Errorf("after the success the state is %+v", s)
		}
	})
}

// TestConnectAgain has an unavailable target that notices when it is available again.
func TestConnectAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		target := k.Target("t")
		target.SetUnavailable(errors.New("no server listens at t: start it"))
		r.Set(doc(conn("c", `"retryMinInsertDelay":1000`, `"retryMaxInsertDelay":60000`)))
		publishTexts(r.Broker, "a/b", "1", "2")
		synctest.Wait()
		if s := r.Status("c"); s.IsConnected || s.Error != "no server listens at t: start it" || s.QueuedMessages != 2 {
			t.Errorf("the state is %+v", s)
		}
		elapse(40 * time.Second)
		synctest.Wait()
		if _, connects := target.Batches(); connects < 5 || connects > 7 {
			t.Errorf("connected %d times in 40 seconds, want pauses of 1, 2, 4, 8, 16 and 32 seconds", connects)
		}
		target.SetUnavailable(nil)
		synctest.Wait()
		if diff := cmp.Diff([]string{"1", "2"}, target.Payloads()); diff != "" {
			t.Errorf("what came as soon as the connector had noticed (-want +got):\n%s", diff)
		}
		target.SetUnavailable(errors.New("it went"))
		synctest.Wait()
		if s := r.Status("c"); s.IsConnected || s.Error != "it went" {
			t.Errorf("the state is %+v, want that of a connection that broke", s)
		}
	})
}

func TestLost(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	target := k.Target("t")
	first := true
	target.HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
		if first {
			first = false
			results[0].State = bridges.Delivered
			return &bridges.Lost{Err: errors.New("broken pipe")}
		}
		bridgestest.All(results, bridges.Delivered, "")
		return nil
	})
	r.Set(doc(conn("c", `"retryMinInsertDelay":1`)))
	publishTexts(r.Broker, "a/b", "1")
	publishTexts(r.Broker, "a/b", "2", "3")
	if got := arrives(t, target, 3); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("got %q", got)
	}
	if _, connects := target.Batches(); connects != 2 {
		t.Errorf("connected %d times, want 2", connects)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	target := k.Target("t")
	target.HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
		for i, e := range batch {
			results[i].State = bridges.Delivered
			if string(e.Payload) == "bad" {
				results[i] = bridges.Result{State: bridges.Rejected, Reason: "it is bad"}
			}
		}
		return nil
	})
	r.Set(doc(conn("c")))
	publishTexts(r.Broker, "a/b", "1", "bad", "2")
	arrives(t, target, 2)
	r.Until("c", "there is a dead letter", func(s broker.BridgeStatus) bool { return s.Stats.DeadLetters == 1 && s.Stats.Rejected == 1 })
	letters := r.DeadLetters("c")
	if l := letters[0]; l.Payload != "bad" || l.Reason != "it is bad" || l.Mapping != "m" || l.Attempts != 1 || l.Topic != "a/b" {
		t.Errorf("the dead letter is %+v", l)
	}
	target.HandleBatches(nil)
	n, err := r.RetryDeadLetters(t.Context(), fake, "c", []string{letters[0].ID})
	if must(t, err); n != 1 {
		t.Errorf("%d dead letters are tried again, want 1", n)
	}
	if got := arrives(t, target, 3); !slices.Equal(got, []string{"1", "2", "bad"}) {
		t.Errorf("got %q", got)
	}
}

func TestNoRetry(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	k.Target("t").HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
		if string(batch[0].Payload) == "1" {
			return errors.New("the table is locked")
		}
		bridgestest.All(results, bridges.Delivered, "")
		return nil
	})
	r.Set(doc(conn("c", `"retryMinInsertDelay":0`, `"batchSize":1`)))
	publishTexts(r.Broker, "a/b", "1", "2")
	arrives(t, k.Target("t"), 1)
	letters := r.DeadLetters("c")
	if len(letters) != 1 || letters[0].Payload != "1" || !strings.Contains(letters[0].Reason, "the table is locked") {
		t.Errorf("dead letters are %+v", letters)
	}
}

func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		k.Target("t").HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
			for i, e := range batch {
				if string(e.Payload) != "stuck" {
					results[i].State = bridges.Delivered
				} else {
					results[i].Reason = "its table is missing"
				}
			}
			return nil
		})
		r.Set(doc(conn("c", `"maxAttempts":3`)))
		publishTexts(r.Broker, "a/b", "stuck", "1", "2", "3")
		elapse(time.Minute)
		synctest.Wait()
		letters := r.DeadLetters("c")
		if len(letters) != 1 || letters[0].Attempts != 3 || letters[0].Reason != "given up after 3 attempts: its table is missing" {
			t.Errorf("dead letters are %+v", letters)
		}
		if got := k.Target("t").Payloads(); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("got %q", got)
		}
	})
}

// deliberate is the type with which tests panic; scripts/test fails on any other recovered panic.
type deliberate struct{}

// TestPanic has a connector panic because of one message among others.
func TestPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		target := k.Target("t")
		target.SetUnavailable(errors.New("away"))
		target.HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
			for i, e := range batch {
				if string(e.Payload) == "bomb" {
					panic(deliberate{})
				}
				results[i].State = bridges.Delivered
			}
			return nil
		})
		r.Set(doc(conn("c")))
		publishTexts(r.Broker, "a/b", "1", "2", "bomb", "3")
		target.SetUnavailable(nil)
		elapse(time.Minute)
		synctest.Wait()
		if got := target.Payloads(); !slices.Contains(got, "3") || slices.Contains(got, "bomb") {
			t.Errorf("got %q", got)
		}
		if letters := r.DeadLetters("c"); len(letters) != 1 || letters[0].Payload != "bomb" {
			t.Errorf("dead letters are %+v", letters)
		}
	})
}

func TestExpired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		k.Target("t").SetUnavailable(errors.New("away"))
		r.Set(doc(conn("c")))
		r.Broker.ClientPublish(messaging.Message{Topic: "a/b", Payload: []byte("short"), ExpiresAt: time.Now().Add(time.Second).UnixMilli()})
		r.Broker.ClientPublish(messaging.Message{Topic: "a/b", Payload: []byte("long"), ExpiresAt: time.Now().Add(time.Hour).UnixMilli()})
		elapse(2 * time.Second)
		k.Target("t").SetUnavailable(nil)
		elapse(time.Minute)
		synctest.Wait()
		if got := k.Target("t").Payloads(); !slices.Equal(got, []string{"long"}) {
			t.Errorf("got %q, want the one that has not expired", got)
		}
		if s := r.Status("c"); s.Stats.Dropped != 1 || s.QueuedMessages != 0 {
			t.Errorf("the state is %+v %+v", s, *s.Stats)
		}
	})
}

// TestExpiresByTheClock delivers by the clock of the Host, whatever the time of day is.
func TestExpiresByTheClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := clocktest.New()
		c := clock.New(m.Sources(), slog.New(slog.DiscardHandler))
		r, k := start(t)
		r.Host.Now = c.Now
		r.Restart()
		k.Target("t").SetUnavailable(errors.New("away"))
		r.Set(doc(conn("c")))
		for payload, left := range map[string]time.Duration{"short": time.Minute, "long": time.Hour} {
			r.Broker.ClientPublish(messaging.Message{Topic: "a/b", Payload: []byte(payload), At: c.Now().UnixMilli(), ExpiresAt: c.Now().Add(left).UnixMilli()})
		}
		elapse(48 * time.Hour) // by the time of day
		m.Pass(2 * time.Minute)
		k.Target("t").SetUnavailable(nil)
		elapse(time.Minute)
		synctest.Wait()
		if got := k.Target("t").Payloads(); !slices.Equal(got, []string{"long"}) {
			t.Errorf("got %q, want the one that has not expired", got)
		}
	})
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		when string
		want []string
	}{{"dropNewest", numbers(0, 5)}, {"dropOldest", numbers(5, 10)}} {
		t.Run(c.when, func(t *testing.T) {
			t.Parallel()
			k := &bridgestest.Kind{}
			r := bridgestest.Start(t, k, disk(t))
			k.Target("t").SetUnavailable(errors.New("away"))
			r.Set(doc(conn("c", `"maxQueuedMessages":5`, `"retryMinInsertDelay":1`, `"whenFull":"`+c.when+`"`)))
			publishTexts(r.Broker, "a/b", numbers(0, 10)...)
			r.Until("c", "five are dropped", func(s broker.BridgeStatus) bool { return s.Stats.Dropped == 5 && s.QueuedMessages == 5 })
			k.Target("t").SetUnavailable(nil)
			if diff := cmp.Diff(c.want, arrives(t, k.Target("t"), 5)); diff != "" {
				t.Errorf("what came (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		r.Set(doc(conn("c", `"batchSize":10`, `"batchDelay":1000`)))
		publishTexts(r.Broker, "a/b", "1")
		elapse(500 * time.Millisecond)
		publishTexts(r.Broker, "a/b", "2")
		synctest.Wait()
		if got := k.Target("t").Payloads(); len(got) > 0 {
			t.Errorf("got %q before the batch's time was over", got)
		}
		elapse(600 * time.Millisecond)
		synctest.Wait()
		publishTexts(r.Broker, "a/b", numbers(3, 15)...)
		synctest.Wait()
		elapse(2 * time.Second)
		synctest.Wait()
		if sizes, _ := k.Target("t").Batches(); !slices.Equal(sizes, []int{2, 10, 2}) {
			t.Errorf("batches were %v, want 2, 10 and 2", sizes)
		}
	})
}

// TestSlowTarget checks the timeout of a delivery.
func TestSlowTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		k.Target("t").HandleBatches(func(ctx context.Context, _ []*bridges.Entry, _ []bridges.Result) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r.Set(doc(conn("c", `"timeout":2000`)))
		publishTexts(r.Broker, "a/b", "1")
		elapse(2100 * time.Millisecond)
		synctest.Wait()
		if s := r.Status("c"); s.Error != "the target did not respond in time" {
			t.Errorf("the state is %+v", s)
		}
		k.Target("t").HandleBatches(nil)
		elapse(time.Second)
		synctest.Wait()
	})
}

// TestOrder has deliveries fail now and then, and checks each topic's order.
func TestOrder(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	n := 0
	k.Target("t").HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
		n++
		stuck := map[string]bool{}
		for i, e := range batch {
			if stuck[e.Topic] = stuck[e.Topic] || (n+i)%7 == 0; !stuck[e.Topic] {
				results[i].State = bridges.Delivered
			}
		}
		if n%5 == 0 {
			return &bridges.Lost{Err: errors.New("broken")}
		}
		return nil
	})
	r.Set(doc(conn("c", `"retryMinInsertDelay":1`, `"retryMaxInsertDelay":2`, `"batchSize":50`)))
	for i := range 600 {
		publishTexts(r.Broker, fmt.Sprint("a/", i%6), fmt.Sprint(i))
	}
	arrives(t, k.Target("t"), 600)
	last := map[string]uint64{}
	for _, e := range k.Target("t").Delivered() {
		if e.ID <= last[e.Topic] {
			t.Fatalf("entry %d of %s came after %d", e.ID, e.Topic, last[e.Topic])
		}
		last[e.Topic] = e.ID
	}
}
