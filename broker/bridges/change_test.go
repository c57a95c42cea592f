package bridges_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
)

// TestUnchangedConnections checks that unchanged connections are not touched.
func TestUnchangedConnections(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	other := strings.ReplaceAll(takes("b", "b"), `"t"`, `"u"`)
	r.Set(doc(takes("a", "a"), other))
	r.Until("a", "it is connected", func(s broker.BridgeStatus) bool { return s.IsConnected })
	r.Until("b", "it is connected", func(s broker.BridgeStatus) bool { return s.IsConnected })
	reordered := `{"topicMappings":[{"target":"x","name":"m","mqttTopics":["a"]}],"name":"a","connection":{"address":"t"}}`
	r.Set(doc(strings.ReplaceAll(other, `"b"]`, `"b","c"]`), reordered))
	r.Until("b", "it is connected", func(s broker.BridgeStatus) bool { return s.IsConnected })
	bridgestest.Await(t, func() error {
		if made, closed := k.Connectors(); made != 3 || closed != 1 {
			return fmt.Errorf("%d connectors were made and %d closed, want 3 and 1", made, closed)
		}
		return nil
	})
	if _, connects := k.Target("t").Batches(); connects != 1 {
		t.Errorf("the connection that stays was made %d times", connects)
	}
	if filters, made := r.Broker.Subscribed(); !slices.Equal(filters, []string{"a", "b", "c"}) || made != 3 {
		t.Errorf("%q are subscribed to, in %d subscriptions", filters, made)
	}
}

// TestStateAfterAChange checks that the state of a replaced assignment is not shown while it
// finishes.
func TestStateAfterAChange(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	finish, begun := make(chan struct{}), make(chan struct{})
	k.Target("t").HandleBatches(func(_ context.Context, _ []*bridges.Entry, results []bridges.Result) error {
		close(begun)
		<-finish
		bridgestest.All(results, bridges.Delivered, "")
		return nil
	})
	k.Target("u").SetUnavailable(errors.New("away"))
	r.Set(doc(takes("c", "a")))
	publishTexts(r.Broker, "a", "1")
	<-begun
	r.Until("c", "it is connected", func(s broker.BridgeStatus) bool { return s.IsConnected })
	r.Set(doc(strings.Replace(takes("c", "a"), `"t"`, `"u"`, 1)))
	if s := r.Status("c"); s.IsConnected {
		t.Errorf("it is connected to what it has left: %+v", s)
	}
	close(finish)
	r.Until("c", "it says why not", func(s broker.BridgeStatus) bool { return s.Error == "away" })
}

// TestOverlap checks that each message is delivered once for each mapping.
func TestOverlap(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	r.Set(`{"connections":[{"name":"c","connection":{"address":"t"},"topicMappings":[
		{"name":"m","mqttTopics":["a/#","a/b","+/b"],"target":"x"},{"name":"n","mqttTopics":["#"],"target":"x"},{"name":"o","mqttTopics":["b/b"],"target":"x"}]}]}`)
	publishTexts(r.Broker, "a/b", "1")
	publishTexts(r.Broker, "b/b", "2")
	publishTexts(r.Broker, "c", "3")
	publishTexts(r.Broker, "$SYS/b", "4")
	arrives(t, k.Target("t"), 6)
	var got []string
	for _, e := range k.Target("t").Delivered() {
		got = append(got, e.Mapping+string(e.Payload))
	}
	if diff := cmp.Diff([]string{"m1", "n1", "m2", "n2", "o2", "n3"}, got); diff != "" {
		t.Errorf("what came (-want +got):\n%s", diff)
	}
	bridgestest.Await(t, func() error {
		if waiting, _ := r.Broker.Outcomes(); waiting > 0 {
			return fmt.Errorf("%d messages are not settled", waiting)
		}
		return nil
	})
}

func TestMappingGone(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	k.Target("t").SetUnavailable(errors.New("away"))
	r.Set(doc(takes("c", "a", "b")))
	publishTexts(r.Broker, "a", "1")
	r.Until("c", "it waits", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 1 })
	k.Target("t").SetUnavailable(nil)
	r.Set(doc(strings.Replace(takes("c", "a", "b"), `"m"`, `"n"`, 1)))
	publishTexts(r.Broker, "a", "2")
	if got := arrives(t, k.Target("t"), 1); !slices.Contains(got, "2") && !slices.Contains(got, "1") {
		t.Errorf("got %q", got)
	}
	r.Until("c", "both are done with", func(s broker.BridgeStatus) bool {
		return s.QueuedMessages == 0 && s.Stats.Delivered+s.Stats.Rejected == 2
	})
	for _, l := range r.DeadLetters("c") {
		if l.Reason != `the topic mapping "m" no longer exists` {
			t.Errorf("the reason is %q", l.Reason)
		}
	}
}

// TestDisabled checks that a disabled connection keeps its queue and takes nothing.
func TestDisabled(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	k.Target("t").SetUnavailable(errors.New("away"))
	r.Set(doc(takes("c", "a")))
	publishTexts(r.Broker, "a", "1")
	r.Until("c", "it waits", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 1 && s.Error == "away" })
	off := strings.Replace(doc(takes("c", "a")), `"name":"c"`, `"name":"c","enabled":false`, 1)
	r.Set(off)
	k.Target("t").SetUnavailable(nil)
	r.Until("c", "it rests", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 1 && s.Error == "" && !s.IsConnected })
	publishTexts(r.Broker, "a", "2")
	if filters, _ := r.Broker.Subscribed(); len(filters) > 0 {
		t.Errorf("it is subscribed to %q", filters)
	}
	r.Restart()
	if s := r.Status("c"); s.QueuedMessages != 1 || s.IsConnected {
		t.Errorf("after a restart the state is %+v", s)
	}
	r.Set(doc(takes("c", "a")))
	publishTexts(r.Broker, "a", "3")
	if got := arrives(t, k.Target("t"), 2); !slices.Equal(got, []string{"1", "3"}) {
		t.Errorf("got %q, want what had waited and what came afterwards", got)
	}
}

// TestRemoved checks that a deleted connection ends, with its queue.
func TestRemoved(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	k.Target("t").SetUnavailable(errors.New("away"))
	r.Set(doc(takes("c", "a")))
	publishTexts(r.Broker, "a", "1")
	r.Until("c", "it waits", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 1 })
	if list, err := r.ListBridges(t.Context()); err != nil || !list[0].IsActive {
		t.Errorf("bridges are %+v, %v", list, err)
	}
	r.Set(doc())
	if list, err := r.ListBridges(t.Context()); err != nil || list[0].IsActive {
		t.Errorf("bridges are %+v, %v", list, err)
	}
	if made, closed := k.Connectors(); made != closed {
		t.Errorf("%d connectors of %d were closed", closed, made)
	}
	_, err := r.ListDeadLetters(t.Context(), fake, "c", 0, -1)
	wantKind(t, err, broker.NotFound)
	r.Set(doc(takes("c", "a")))
	if s := r.Status("c"); s.QueuedMessages != 0 {
		t.Errorf("the state is %+v, want a new queue", s)
	}
}

// TestNotStored checks that nothing changes if a change cannot be stored.
func TestNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &bridgestest.Store{}
		k := &bridgestest.Kind{}
		r := bridgestest.Start(t, k, s)
		r.Set(doc(takes("c", "a"), takes("d", "d")))
		before := config(t, r)
		s.Fail(errors.New("the disk is full"))
		wantKind(t, set(r, doc(takes("c", "b"), takes("e", "e"))), broker.Internal)
		s.Fail(nil)
		if got := config(t, r); got != before {
			t.Errorf("the configuration is %s", got)
		}
		publishTexts(r.Broker, "a", "1")
		arrives(t, k.Target("t"), 1)
		bridgestest.Await(t, func() error { // the link that was about to be deleted opens its queue again
			publishTexts(r.Broker, "d", "2")
			if !slices.Contains(k.Target("t").Payloads(), "2") {
				return errors.New("nothing comes by the connection that was to go")
			}
			return nil
		})
	})
}

// traffic publishes numbered messages to topics until it is stopped.
type traffic struct {
	running sync.WaitGroup
	stopped chan struct{}
	said    []int // last number, by topic
}

func begin(b *bridgestest.Broker, topics ...string) *traffic {
	f := &traffic{stopped: make(chan struct{}), said: make([]int, len(topics))}
	for i, topic := range topics {
		f.running.Go(func() {
			for {
				select {
				case <-f.stopped:
					return
				default:
				}
				b.Text(topic, fmt.Sprint(f.said[i]))
				f.said[i]++
				if f.said[i]%20 == 0 { // so that the worker keeps up
					<-time.After(time.Millisecond)
				}
			}
		})
	}
	return f
}

func (f *traffic) stop() (total int) {
	close(f.stopped)
	f.running.Wait()
	for _, n := range f.said {
		total += n
	}
	return total
}

// TestChangeUnderLoad changes everything that can be changed while messages are published: none
// is lost or duplicated, and each topic's are in order.
func TestChangeUnderLoad(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	documents := []string{
		doc(takes("c", "a/#")), doc(takes("c", "a/1", "a/#")), doc(takes("c", "a/1", "a/2", "a/+")), doc(takes("c", "#")),
		doc(takes("c", "a/+", "a/1")), doc(strings.Replace(takes("c", "a/#"), `"t"}`, `"t","port":7},"options":{"batchSize":7}`, 1)),
	}
	r.Set(documents[0])
	f := begin(r.Broker, "a/1", "a/2", "a/3")
	for i := range 60 {
		r.Set(documents[i%len(documents)])
		<-time.After(3 * time.Millisecond)
	}
	total := f.stop()
	arrives(t, k.Target("t"), total)
	r.Until("c", "nothing waits", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 0 })
	next := map[string]int{}
	for _, e := range k.Target("t").Delivered() {
		if string(e.Payload) != fmt.Sprint(next[e.Topic]) {
			t.Fatalf("%s of %s came where %d was next", e.Payload, e.Topic, next[e.Topic])
		}
		next[e.Topic]++
	}
	if made, closed := k.Connectors(); made-closed != 1 {
		t.Errorf("%d of %d connectors were closed, want all but one", closed, made)
	}
}

// TestRemovedFilters checks that taps end after others have taken over.
func TestRemovedFilters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := start(t)
		r.Set(doc(takes("c", "#", "x/y")))
		r.Set(doc(takes("c", "a/#")))
		if filters, _ := r.Broker.Subscribed(); !slices.Equal(filters, []string{"#", "a/#"}) {
			t.Errorf("%q are subscribed to just after the change", filters)
		}
		elapse(3 * time.Second)
		synctest.Wait()
		if filters, _ := r.Broker.Subscribed(); !slices.Equal(filters, []string{"a/#"}) {
			t.Errorf("%q are subscribed to", filters)
		}
	})
}

// TestCloseUnderLoad repeatedly closes the engine during publishing and deliveries: acknowledged
// messages are not lost or duplicated.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	k.Target("t").HandleBatches(func(_ context.Context, batch []*bridges.Entry, results []bridges.Result) error {
		<-time.After(time.Millisecond)
		for i := range batch[:(len(batch)+1)/2] {
			results[i].State = bridges.Delivered
		}
		return nil
	})
	r.Set(doc(takes("c", "a/#")))
	for range 8 {
		f := begin(r.Broker, "a/1", "a/2")
		bridgestest.Await(t, func() error {
			if len(k.Target("t").Delivered()) == 0 {
				return errors.New("nothing has come")
			}
			return nil
		})
		r.Restart()
		f.stop()
	}
	k.Target("t").HandleBatches(nil)
	bridgestest.Await(t, func() error { // a message may be acknowledged after the check of the queue and not be delivered yet
		if waiting, _ := r.Broker.Outcomes(); waiting > 0 {
			return fmt.Errorf("%d messages are not settled", waiting)
		}
		return nil
	})
	r.Until("c", "nothing waits", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 0 && s.IsConnected })
	_, settled := r.Broker.Outcomes()
	kept := 0
	for _, err := range settled {
		if err == nil {
			kept++
		}
	}
	ids := map[string]bool{}
	for _, e := range k.Target("t").Delivered() {
		if ids[e.MessageID] {
			t.Errorf("%s came twice", e.MessageID)
		}
		ids[e.MessageID] = true
	}
	if len(ids) < kept {
		t.Errorf("%d messages came of %d that were settled", len(ids), kept)
	}
	if made, closed := k.Connectors(); made-closed != 1 {
		t.Errorf("%d of %d connectors were closed, want all but one", closed, made)
	}
}

// TestHangingTarget checks that a change and Close do not wait for ever.
func TestHangingTarget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, k := start(t)
		k.Target("t").HandleBatches(func(ctx context.Context, _ []*bridges.Entry, _ []bridges.Result) error {
			<-ctx.Done()
			return ctx.Err()
		})
		r.Set(doc(takes("c", "a")))
		publishTexts(r.Broker, "a", "1")
		synctest.Wait()
		begun := time.Now()
		r.Set(doc(strings.Replace(takes("c", "a"), `"t"`, `"u"`, 1)))
		if took := time.Since(begun); took > 0 {
			t.Errorf("the change took %v", took)
		}
		elapse(6 * time.Second)
		synctest.Wait()
		if got := k.Target("u").Payloads(); !slices.Equal(got, []string{"1"}) {
			t.Errorf("got %q at the other target", got)
		}
	})
}

// TestMappingAdded checks that the ending worker does not treat messages of a new topic mapping
// as those of a deleted one.
func TestMappingAdded(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	r.Set(doc(takes("c", "a")))
	r.Until("c", "it is connected", func(s broker.BridgeStatus) bool { return s.IsConnected })
	r.Broker.Subscribing(func(string) {
		publishTexts(r.Broker, "b", "1")
		r.Until("c", "it is dealt with", func(s broker.BridgeStatus) bool { return s.Stats.Delivered+s.Stats.Rejected == 1 })
	})
	r.Set(doc(strings.Replace(takes("c", "a"), `"topicMappings":[`, `"topicMappings":[{"name":"n","mqttTopics":["b"],"target":"x"},`, 1)))
	if letters := r.DeadLetters("c"); len(letters) > 0 {
		t.Errorf("dead letters are %+v", letters)
	}
	if got := k.Target("t").Payloads(); !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %q", got)
	}
}
