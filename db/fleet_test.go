package db_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/scripts/suite"
)

// fleet is several copies of a database that share a log, which is in memory. Each copy applies
// it on a goroutine of its own.
type fleet struct {
	t     testing.TB
	nodes []*copyNode
	fault func() fault // of the next proposal; nil for none

	mu      sync.Mutex // guards what follows
	cond    sync.Cond  // something of it has changed
	log     [][]byte   // of index 1 and later
	late    [][]byte   // entries that are appended after the next one
	stopped bool
	ends    sync.WaitGroup
}

// copyNode is one copy. It is a db.Log.
type copyNode struct {
	f       *fleet
	d       *db.DB
	index   uint64 // up to which it has applied the log
	results map[uint64][]byte
	err     error // of Apply
	hold    bool  // it applies nothing
	busy    bool  // it applies an entry
}

// fault is what happens to a proposal.
type fault int

const (
	none        fault = iota
	unavailable       // it is refused
	dropped           // it is lost, which the proposer does not know
	unconfirmed       // it is applied, which the proposer does not know
	late              // it is applied later, which the proposer does not know
)

var errNoAnswer = fmt.Errorf("%w: no answer", db.ErrUnconfirmed)

// newFleet starts copies of an empty database. The first one is populated before it is shared.
func newFleet(t testing.TB, size int) *fleet {
	t.Helper()
	var copies []*db.DB
	for range size {
		copies = append(copies, dbtest.New(t))
	}
	return newFleetOf(t, copies)
}

// newFleetOf is newFleet with databases that are open.
func newFleetOf(t testing.TB, copies []*db.DB) *fleet {
	t.Helper()
	f := &fleet{t: t}
	f.cond.L = &f.mu
	for _, d := range copies {
		f.nodes = append(f.nodes, &copyNode{f: f, d: d, results: map[uint64][]byte{}})
	}
	populate(t, f.nodes[0].d)
	for i, n := range f.nodes {
		if i > 0 {
			must(t, restoreFrom(t, f.nodes[0].d, n.d, 0))
		}
		must(t, n.d.Share(t.Context(), n))
		f.ends.Go(n.run)
	}
	t.Cleanup(f.stop)
	return f
}

// restoreFrom restores a copy from a snapshot of another one.
func restoreFrom(t testing.TB, from, to *db.DB, index uint64) error {
	t.Helper()
	s, err := from.Snapshot(t.Context())
	must(t, err)
	defer s.Release()
	return restoreSnapshot(t.Context(), s, to, index)
}

// stop ends the goroutines that apply the log.
func (f *fleet) stop() {
	f.mu.Lock()
	f.stopped = true
	f.cond.Broadcast()
	f.mu.Unlock()
	f.ends.Wait()
}

// run applies the log.
func (n *copyNode) run() {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.stopped && n.err == nil {
		if n.hold || n.index >= uint64(len(f.log)) {
			f.cond.Wait()
			continue
		}
		entry, d := f.log[n.index], n.d
		n.busy = true
		f.mu.Unlock()
		for range rand.IntN(50) { // some are slower than others
			runtime.Gosched()
		}
		result, err := d.Apply(context.Background(), n.index+1, entry)
		f.mu.Lock()
		n.busy = false
		if n.err = err; err == nil {
			n.index++
			n.results[n.index] = result
		}
		f.cond.Broadcast()
	}
}

// Sync waits until the copy has applied the present log.
func (n *copyNode) Sync(ctx context.Context) error {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil && f.fault() == unavailable {
		return fmt.Errorf("%w: there is no leader", db.ErrUnavailable)
	}
	defer context.AfterFunc(ctx, func() { f.set(func() {}) })()
	for end := uint64(len(f.log)); n.index < end && n.err == nil && ctx.Err() == nil; {
		f.cond.Wait()
	}
	return errors.Join(n.err, ctx.Err())
}

// Leads reports whether this is the first copy.
func (n *copyNode) Leads() bool { return n == n.f.nodes[0] }

// Propose appends an entry to the log, unless a fault prevents that.
func (n *copyNode) Propose(ctx context.Context, entry []byte) (result []byte, err error) {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	what := none
	if f.fault != nil {
		what = f.fault()
	}
	switch what {
	case unavailable:
		return nil, fmt.Errorf("%w: there is no leader", db.ErrUnavailable)
	case dropped:
		return nil, errNoAnswer
	case late:
		f.late = append(f.late, entry)
		return nil, errNoAnswer
	}
	f.log = append(f.log, entry)
	index := uint64(len(f.log))
	f.log = append(f.log, f.late...)
	f.late = nil
	f.cond.Broadcast()
	if what == unconfirmed {
		return nil, errNoAnswer
	}
	defer context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cond.Broadcast()
	})()
	for n.index < index && n.err == nil && ctx.Err() == nil {
		f.cond.Wait()
	}
	if n.index < index {
		return nil, errors.Join(errNoAnswer, n.err, ctx.Err())
	}
	return n.results[index], nil
}

// set changes something of the fleet.
func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.cond.Broadcast()
}

// wait waits until something is the case, or a copy has failed.
func (f *fleet) wait(what string, done func() bool) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	ctx, cancel := context.WithTimeout(f.t.Context(), suite.HangLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { f.set(func() {}) })()
	for !done() {
		for i, n := range f.nodes {
			if n.err != nil {
				f.t.Fatalf("copy %d: %v", i, n.err)
			}
		}
		if ctx.Err() != nil {
			f.t.Fatalf("waited in vain: %s", what)
		}
		f.cond.Wait()
	}
}

// settle has late entries applied, waits until all copies have applied the log, and compares them.
func (f *fleet) settle() {
	f.t.Helper()
	f.set(func() {
		f.log = append(f.log, f.late...)
		f.late, f.fault = nil, nil
	})
	f.wait("all copies apply the log", func() bool {
		for _, n := range f.nodes {
			if n.index < uint64(len(f.log)) {
				return false
			}
		}
		return true
	})
	want, err := f.nodes[0].d.SharedContent(f.t.Context())
	must(f.t, err)
	for i, n := range f.nodes {
		got, err := n.d.SharedContent(f.t.Context())
		must(f.t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			f.t.Errorf("copy %d differs (-copy 0 +copy %d):\n%s", i, i, diff)
		}
		if _, err := n.d.VerifyAudit(f.t.Context(), nil); err != nil {
			f.t.Errorf("copy %d: %v", i, err)
		}
		if got, want := n.d.AppliedIndex(), n.index; got != want {
			f.t.Errorf("copy %d: got applied index %d, want %d", i, got, want)
		}
	}
}

// proposals returns the number of entries in the log.
func (f *fleet) proposals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.log)
}
