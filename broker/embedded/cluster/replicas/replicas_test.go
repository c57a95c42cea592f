package replicas

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/broker/embedded/engine"
	"signalbox/scripts/suite"
)

// compare fails the test unless the other nodes have the sessions of node 1.
func (r *rig) compare() {
	r.t.Helper()
	if diff := cmp.Diff(r.own(), r.replicated(), asStored...); diff != "" {
		r.t.Errorf("the replicas differ (-own +replicated):\n%s", diff)
	}
}

// asStored compares what the store has of sessions.
var asStored = []cmp.Option{
	cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(engine.Message{}),
	cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal)),
}

// change submits random changes and waits for their outcomes.
func (r *rig) change(n int) {
	r.t.Helper()
	var outcomes []receipt
	for range n {
		outcomes = append(outcomes, r.submit(r.sequence.next()))
	}
	for _, o := range outcomes {
		must(r.t, <-o)
	}
}

func TestReplicasHaveEveryChangeThatIsAcknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.change(200)
	r.SetPeers(r.nodes())
	r.change(300) // some before the replicas begin, some while they do
	r.awaitComplete()
	for range 8 {
		r.change(50)
		r.compare()
	}
}

func TestLostRequestsAndResponses(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	lost, random := errors.New("lost"), suite.Rand(t)
	r.net.inject(func(int, []byte) (before, after error) {
		switch random.IntN(4) {
		case 0:
			return lost, nil
		case 1:
			return nil, lost
		}
		return nil, nil
	})
	r.change(200)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	for range 5 {
		r.change(50)
		r.compare()
	}
}

func TestChangesWaitForTheReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.change(50)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	arrived, proceed := make(chan struct{}, 1), make(chan struct{})
	r.net.inject(func(int, []byte) (before, after error) {
		arrived <- struct{}{}
		<-proceed
		return nil, nil
	})
	c := &engine.Changes{}
	r.sequence.enqueue(c, 10)
	for len(c.Enqueued) == 0 {
		r.sequence.enqueue(c, 10)
	}
	outcome := r.submit(c)
	<-arrived // so it is stored at node 1
	select {
	case err := <-outcome:
		t.Errorf("acknowledged before the replica has it: %v", err)
	default:
	}
	close(proceed)
	must(t, <-outcome)
	r.net.inject(nil)
	r.compare()
}

// TestOrder shows that outcomes are reported in the order of the changes, though one of the nodes is slow.
func TestOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	r.change(100)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	slow := make(chan struct{})
	r.net.inject(func(to int, _ []byte) (before, after error) {
		if to == 2 {
			<-slow
		}
		return nil, nil
	})
	var last atomic.Int64
	done := make(chan struct{})
	const changes = 500
	for i := range int64(changes) {
		c := r.sequence.next()
		c.Done = ordered(func(error) {
			if !last.CompareAndSwap(i, i+1) {
				t.Errorf("outcome %d comes after %d", i, last.Load())
			}
			if i == changes-1 {
				close(done)
			}
		})
		r.Submit(c)
		if i == changes/2 {
			close(slow)
		}
	}
	<-done
	r.net.inject(nil)
	r.compare()
}

type ordered func(error)

func (f ordered) Committed(_ *engine.Changes, err error) { f(err) }

func TestNodeThatIsAwayIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault error
		after time.Duration
	}{
		{"it refuses connections", syscall.ECONNREFUSED, 500 * time.Millisecond},
		{"it does not respond", errors.New("no response"), 3 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 1, productTimes)
				r.change(50)
				r.SetPeers(r.nodes())
				r.awaitComplete()
				r.net.inject(func(int, []byte) (before, after error) { return test.fault, nil })
				began := time.Now()
				r.change(50)
				if waited := time.Since(began); waited < test.after || waited > test.after+time.Second {
					t.Errorf("changes waited for %v, want %v", waited, test.after)
				}
				began = time.Now()
				r.change(50)
				if waited := time.Since(began); waited > 0 {
					t.Errorf("later changes waited for %v", waited)
				}
				r.net.inject(nil)
				r.awaitComplete()
				r.change(50)
				r.compare()
			})
		})
	}
}

func TestReceiverRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1, func(o *Options) { o.Timeout, o.RefusedTimeout = time.Hour, time.Hour })
	r.change(100)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	for range 3 {
		r.stopReceiver(2)
		outcomes := []receipt{}
		for range 50 {
			outcomes = append(outcomes, r.submit(r.sequence.next()))
		}
		r.startReceiver(2)
		for _, o := range outcomes {
			must(t, <-o)
		}
		r.compare()
	}
	if begun := r.Figures()[0].Begun; begun != 1 {
		t.Errorf("the replica was begun %d times, want once: a restart continues it", begun)
	}
	r.stopReceiver(2)
	must(t, os.RemoveAll(r.dirs[2]))
	r.startReceiver(2)
	r.change(50)
	r.awaitComplete()
	r.change(50)
	r.compare()
}

// TestPrimaryRestarts shows that a replica is begun anew, and that the former one stays until then.
func TestPrimaryRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.change(100)
	r.SetPeers(r.nodes())
	r.awaitComplete()
	r.change(100)
	before := r.replicated()
	dir := t.TempDir()
	other, err := openPrimary(context.Background(), dir, Options{Net: r.net})
	must(t, err)
	defer other.shut(t)
	r.SetPeers(nil)
	arrived := make(chan struct{}, 1)
	r.net.inject(func(_ int, request []byte) (before, after error) {
		if request[1] != kindComplete {
			return nil, nil
		}
		select {
		case arrived <- struct{}{}:
		default:
		}
		return errors.New("lost"), nil
	})
	must(t, <-other.submit(&engine.Changes{PutSessions: []engine.SessionRecord{{ID: 1, ClientID: "new", Version: 5, ExpiryInterval: 1}}}))
	other.SetPeers(r.nodes())
	<-arrived
	if diff := cmp.Diff(before, r.replicated(), asStored...); diff != "" {
		t.Errorf("the former replica has changed (-before +now):\n%s", diff)
	}
	r.stopReceiver(2) // which deletes what is not complete when it starts
	r.net.inject(nil)
	r.startReceiver(2)
	(&rig{t: t, primary: other}).awaitComplete()
	if now := r.replicated(); len(now) != 1 || now["new"].ID != 1 {
		t.Errorf("the replica has %d sessions, want that of the new file", len(now))
	}
	if files, err := findReplicas(r.dirs[2]); err != nil || len(files) != 1 {
		t.Errorf("%d files are left (%v), want one", len(files), err)
	}
}

func TestLargeMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	r.change(50)
	big := func() {
		c := &engine.Changes{}
		for len(c.Enqueued) == 0 {
			r.sequence.enqueue(c, maxPiece*5/2)
		}
		must(t, <-r.submit(c))
	}
	big() // it is part of the state with which the replica begins
	var largest atomic.Int64
	lost, random := errors.New("lost"), suite.Rand(t)
	r.net.inject(func(_ int, request []byte) (before, after error) {
		largest.Store(max(largest.Load(), int64(len(request))))
		if random.IntN(3) == 0 {
			return nil, lost
		}
		return nil, nil
	})
	r.SetPeers(r.nodes())
	r.awaitComplete()
	r.compare()
	big()
	r.compare()
	if n := largest.Load(); n > maxPiece+100 {
		t.Errorf("a request has %d bytes, more than a piece may have", n)
	}
}

// TestMembersChange shows that each session has one replica, at the node that is due, after nodes were added and
// removed.
func TestMembersChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, 3)
	r.change(500)
	for _, nodes := range [][]int{{2}, {2, 3}, {2, 3, 4}, {3, 4}} {
		r.SetPeers(nodes)
		r.change(100)
		r.awaitComplete()
		r.change(100)
		for _, n := range r.nodes() {
			if receiver := r.receiver(n); !slices.Contains(nodes, n) {
				must(t, receiver.SetPeers(context.Background(), nil))
				r.stopReceiver(n)
				delete(r.dirs, n)
				if n == 2 {
					continue
				}
				r.dirs[n] = t.TempDir()
				r.startReceiver(n)
			}
		}
		all := r.dirs
		r.dirs = map[int]string{}
		for _, n := range nodes {
			r.dirs[n] = all[n]
		}
		r.compare()
		r.dirs = all
	}
}
