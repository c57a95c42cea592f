package replicas

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

func TestPublishersWaitForASlowReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, func(o *Options) { o.MaxQueued = 64 << 10; o.Timeout = time.Hour })
	r.change(50)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	slow := make(chan struct{})
	r.net.inject(func(int, []byte) (before, after error) {
		<-slow
		return nil, nil
	})
	var outcomes []receipt
	for range 200 {
		outcomes = append(outcomes, r.submit(r.sequence.next()))
	}
	suite.WaitFor(t, "more waits for the other node than may", r.Full)
	waited := make(chan struct{})
	go func() {
		r.WaitForCapacity()
		close(waited)
	}()
	select {
	case <-waited:
		t.Error("a publisher did not wait")
	default:
	}
	close(slow)
	<-waited
	for _, o := range outcomes {
		must(t, <-o)
	}
	r.compare()
}

// TestOverrun shows that a replica is begun again if too much is changed while it is loaded, and that this delays
// no change.
func TestOverrun(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, func(o *Options) { o.MaxQueued = 4 << 10; o.RetryInterval = time.Millisecond })
	r.change(100)
	var loads atomic.Int32
	slow, arrived := make(chan struct{}), make(chan struct{})
	r.net.inject(func(_ int, request []byte) (before, after error) {
		if request[1] == kindLoad && loads.Add(1) == 1 {
			close(arrived)
			<-slow
		}
		return nil, nil
	})
	r.SetPeers(r.nodes())
	<-arrived
	for range 20 {
		r.change(20)
	}
	close(slow)
	r.awaitComplete()
	r.change(20)
	r.compare()
	if begun := r.Figures()[0].Begun; begun < 2 {
		t.Errorf("the replica was begun %d times, want at least twice", begun)
	}
}

func TestFullReceiver(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, func(o *Options) { o.RetryInterval = time.Millisecond })
	r.stopReceiver(2)
	var low atomic.Bool
	r.startReceiver(2, func(o *ReceiverOptions) { o.DiskLow = low.Load })
	r.change(50)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	low.Store(true)
	r.change(50) // is acknowledged without the replica
	if r.Figures()[0].Complete {
		t.Error("the replica is complete, though the node refuses changes")
	}
	low.Store(false)
	r.awaitComplete()
	r.change(50)
	r.compare()
}

func TestNothingToReplicate(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	m := &engine.Message{ID: 1, Topic: "a", Payload: []byte("1")}
	must(t, <-r.submit(&engine.Changes{Messages: []*engine.Message{m}, Retained: []engine.RetainedRecord{{Topic: "a", Message: m}}}))
	if f := r.Figures()[0]; f.Changes != 0 {
		t.Errorf("%d changes were sent, want none: retained messages have no replica", f.Changes)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	counts := map[int]int{}
	for i := range 9000 {
		hash := hashOf(fmt.Sprint("client ", i))
		with := choose(hash, []int{2, 3, 4})
		counts[with]++
		if without := choose(hash, []int{4, 2}); with != 3 && without != with {
			t.Fatalf("the replica of client %d moves from node %d to %d, though node 3 was removed", i, with, without)
		}
	}
	for n, count := range counts {
		if count < 2700 || count > 3300 {
			t.Errorf("node %d has %d of 9000 replicas, want about 3000", n, count)
		}
	}
	if choose(1, nil) != 0 {
		t.Error("a node was chosen without nodes")
	}
}

func FuzzServe(f *testing.F) {
	c := &engine.Changes{PutSessions: []engine.SessionRecord{{ID: 1, ClientID: "a", Version: 5}}}
	body := (&batch{1, [][]byte{encodeChanges(c)}}).encode()
	for kind := byte(kindBegin); kind <= kindLast; kind++ {
		f.Add((&piece{kind: kind, stream: 1, total: uint64(len(body)), bytes: body}).encode())
	}
	r, err := OpenReceiver(f.Context(), ReceiverOptions{Dir: f.TempDir()})
	must(f, err)
	f.Cleanup(func() { must(f, r.Close(context.Background())) })
	f.Fuzz(func(t *testing.T, request []byte) {
		b, err := r.Serve(t.Context(), 1, request)
		if err != nil && !errors.Is(err, errFormat) {
			t.Errorf("%v", err)
		}
		if err == nil {
			_, err = decodeStatus(b)
			must(t, err)
		}
	})
}
