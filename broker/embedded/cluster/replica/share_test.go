package replica

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
)

// retainer is a Retaining that commits at once, fails, or hangs.
type retainer struct {
	mu      sync.Mutex
	batches [][]byte
	err     error
	hangs   bool
	now     int // in flight
	max     int
}

func (r *retainer) Retain(ctx context.Context, batch []byte) error {
	r.mu.Lock()
	r.now++
	r.max = max(r.max, r.now)
	hangs := r.hangs
	r.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if r.err == nil {
		r.batches = append(r.batches, batch)
	}
	return r.err
}

func (r *retainer) set(err error, hangs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.hangs = err, hangs
}

// TestShare replicates only changes to retained messages that can be refused.
func TestShare(t *testing.T) {
	t.Parallel()
	s, l := open(t)
	r := &retainer{}
	must(t, s.Share(t.Context(), r))
	owed := retained(3)
	owed.Owed = true
	mixed := retained(4)
	mixed.Received = []engine.IncomingRecord{{SessionID: 1, PacketID: 1}}
	for _, c := range []*engine.Changes{retained(1), change(2), owed, mixed} {
		must(t, <-submit(s, c))
	}
	if submitted, _ := l.kept(); !slices.Equal(submitted, []uint64{2, 3, 4}) {
		t.Errorf("the node's own store was given %v", submitted)
	}
	if len(r.batches) != 1 || !slices.Equal(numbers(t, r.batches[0]), []uint64{1}) {
		t.Errorf("agreed upon are %x", r.batches)
	}
}

// TestShareInOrder replicates one batch after the other.
func TestShareInOrder(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	r := &retainer{}
	must(t, s.Share(t.Context(), r))
	j := newJournal()
	for n := range uint64(5000) {
		c := retained(n + 1)
		c.Done = j
		s.Submit(c)
	}
	settled, errs := j.wait(5000)
	must(t, errs...)
	var agreed []uint64
	for _, batch := range r.batches {
		agreed = append(agreed, numbers(t, batch)...)
	}
	if want := upTo(1, 5000); !slices.Equal(settled, want) || !slices.Equal(agreed, want) || r.max != 1 {
		t.Errorf("settled %d, agreed upon %d changes, %d batches at once", len(settled), len(agreed), r.max)
	}
}

// TestShareFails refuses retained messages only, and recovers.
func TestShareFails(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	r := &retainer{err: errRefused}
	must(t, s.Share(t.Context(), r))
	if err := <-submit(s, retained(1)); !errors.Is(err, errRefused) {
		t.Errorf("got error %v, want %v", err, errRefused)
	}
	must(t, <-submit(s, change(2)), s.Err())
	big := retained(3)
	big.Messages = sized(3, MaxCommand).Messages
	if err := <-submit(s, big); !errors.Is(err, errTooLarge) {
		t.Errorf("got error %v, want %v", err, errTooLarge)
	}
	r.set(nil, false)
	must(t, <-submit(s, retained(4)))
}

// TestShareHangs stores everything else while the cluster does not respond.
func TestShareHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		r := &retainer{hangs: true}
		must(t, s.Share(t.Context(), r))
		j := newJournal()
		for n := range uint64(maxPendingChanges + 1) {
			c := retained(n + 1)
			c.Done = j
			s.Submit(c)
		}
		began := time.Now()
		s.WaitForCapacity()
		if waited := time.Since(began); waited != stallTimeout {
			t.Errorf("who makes changes waited for %v, want %v", waited, stallTimeout)
		}
		if err := <-submit(s, retained(1)); !errors.Is(err, errStalled) {
			t.Errorf("a retained message too many is settled with %v", err)
		}
		must(t, <-submit(s, change(1)))
		s.WaitForCapacity()
		must(t, s.Alone(t.Context()), <-submit(s, retained(2)))
		_, errs := j.wait(maxPendingChanges + 1)
		for _, err := range errs {
			if !errors.Is(err, errUnshared) {
				t.Fatalf("got error %v, want %v", err, errUnshared)
			}
		}
		if first, last := errs[0], errs[len(errs)-1]; !errors.Is(first, engine.ErrUncertain) || errors.Is(last, engine.ErrUncertain) {
			t.Errorf("what was under way is settled with %v, what waited with %v", first, last)
		}
	})
}

// TestShareRecovers accepts retained messages again after the cluster did not respond for
// a while.
func TestShareRecovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testShareRecovers)
}

func testShareRecovers(t *testing.T) {
	s, _ := open(t)
	r := &retainer{err: errRefused}
	must(t, s.Share(t.Context(), r))
	for range 10 {
		if err := <-submit(s, retained(1)); !errors.Is(err, errRefused) {
			t.Errorf("got error %v, want %v", err, errRefused)
		}
	}
	r.set(nil, false)
	must(t, <-submit(s, retained(1))) // until then, no caller waits for capacity
	j := newJournal()
	for n := range uint64(2 * maxPendingChanges) {
		s.WaitForCapacity()
		c := retained(n + 1)
		c.Done = j
		s.Submit(c)
	}
	_, errs := j.wait(2 * maxPendingChanges)
	for i, err := range errs {
		if err != nil {
			t.Fatalf("change %d: %v", i+1, err)
		}
	}
}
