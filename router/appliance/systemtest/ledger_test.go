package systemtest

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// fate is what is known about a record that was being written.
type fate int

const (
	either fate = iota // asked for and not answered: there as a whole, or not at all
	there              // its creation was acknowledged
	gone               // its deletion was acknowledged
)

// ledger is what the writers of one round were promised.
type ledger struct {
	mu        sync.Mutex // guards the fields below
	fates     map[string]fate
	revisions map[string]int // of each role, as acknowledged; one more may be stored
	left      int            // acknowledgements until enough is closed
	enough    chan struct{}
}

// newLedger makes one whose channel enough is closed with the nth
// acknowledgement.
func newLedger(n int) *ledger {
	return &ledger{fates: map[string]fate{}, revisions: map[string]int{}, left: n, enough: make(chan struct{})}
}

// asked notes that a record is about to be created or deleted.
func (l *ledger) asked(name string) { l.set(name, either) }

// promised notes that a creation or deletion was acknowledged.
func (l *ledger) promised(name string, f fate) {
	l.set(name, f)
	l.count()
}

// revised notes that a role's nth revision was acknowledged.
func (l *ledger) revised(role string, n int) {
	l.mu.Lock()
	l.revisions[role] = n
	l.mu.Unlock()
	l.count()
}

func (l *ledger) set(name string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fates[name] = f
}

func (l *ledger) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left == 0 {
		close(l.enough)
	}
}

// promises gives how many acknowledgements there were beyond enough.
func (l *ledger) promises() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return -l.left
}

// await waits for enough acknowledgements.
func (l *ledger) await(t testing.TB) {
	t.Helper()
	select {
	case <-l.enough:
	case <-time.After(suite.HangLimit):
		t.Error("the writers get no acknowledgements")
	}
}

// settle takes over which of the unanswered records are there, so that from
// now on they have to stay.
func (l *ledger) settle(present map[string]bool) {
	for name, f := range l.fates {
		switch {
		case f == either && present[name]:
			l.fates[name] = there
		case f == either:
			l.fates[name] = gone
		}
	}
}

// complaints compares with what is there. lost are records that were promised
// and are missing; stray are those that were deleted, or that nobody wrote.
func (l *ledger) complaints(present map[string]bool) (lost, stray []string) {
	for name, f := range l.fates {
		if f == there && !present[name] {
			lost = append(lost, name)
		}
	}
	for name := range present {
		if f, known := l.fates[name]; !known || f == gone {
			stray = append(stray, name)
		}
	}
	slices.Sort(lost)
	slices.Sort(stray)
	return lost, stray
}

// join adds what another ledger knows.
func (l *ledger) join(other *ledger) { maps.Copy(l.fates, other.fates) }

func (l *ledger) acknowledged() (n int) {
	for _, f := range l.fates {
		if f != either {
			n++
		}
	}
	for _, revisions := range l.revisions {
		n += revisions
	}
	return n
}
