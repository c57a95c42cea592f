package systemtest

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// recordState is what is known about a record that was written.
type recordState int

const (
	unknown recordState = iota // requested and not acknowledged: it exists completely, or not at all
	created                    // its creation was acknowledged
	deleted                    // its deletion was acknowledged
)

// expectedState is what was acknowledged to the writers of one round.
type expectedState struct {
	mu        sync.Mutex // guards the fields below
	records   map[string]recordState
	revisions map[string]int // of each role, as acknowledged; the next one may be stored
	left      int            // acknowledgements until enough is closed
	enough    chan struct{}
}

// newExpectedState returns one whose channel enough is closed with the nth
// acknowledgement.
func newExpectedState(n int) *expectedState {
	return &expectedState{records: map[string]recordState{}, revisions: map[string]int{}, left: n, enough: make(chan struct{})}
}

// pending records that a record is about to be created or deleted.
func (l *expectedState) pending(name string) { l.set(name, unknown) }

// acknowledge records that a creation or deletion was acknowledged.
func (l *expectedState) acknowledge(name string, f recordState) {
	l.set(name, f)
	l.count()
}

// revised records that a role's nth revision was acknowledged.
func (l *expectedState) revised(role string, n int) {
	l.mu.Lock()
	l.revisions[role] = n
	l.mu.Unlock()
	l.count()
}

func (l *expectedState) set(name string, f recordState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records[name] = f
}

func (l *expectedState) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left--; l.left == 0 {
		close(l.enough)
	}
}

// acknowledgedBeyond returns how many acknowledgements there were beyond enough.
func (l *expectedState) acknowledgedBeyond() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return -l.left
}

// await waits for enough acknowledgements.
func (l *expectedState) await(t testing.TB) {
	t.Helper()
	select {
	case <-l.enough:
	case <-time.After(suite.HangLimit):
		t.Error("the writers receive no acknowledgements")
	}
}

// resolve records which of the pending records exist, which therefore have to stay.
func (l *expectedState) resolve(present map[string]bool) {
	for name, f := range l.records {
		switch {
		case f == unknown && present[name]:
			l.records[name] = created
		case f == unknown:
			l.records[name] = deleted
		}
	}
}

// differences compares with what exists. lost are acknowledged records that are
// missing; stray are those that were deleted, or that no writer wrote.
func (l *expectedState) differences(present map[string]bool) (lost, stray []string) {
	for name, f := range l.records {
		if f == created && !present[name] {
			lost = append(lost, name)
		}
	}
	for name := range present {
		if f, known := l.records[name]; !known || f == deleted {
			stray = append(stray, name)
		}
	}
	slices.Sort(lost)
	slices.Sort(stray)
	return lost, stray
}

// merge adds another state.
func (l *expectedState) merge(other *expectedState) { maps.Copy(l.records, other.records) }

func (l *expectedState) acknowledged() (n int) {
	for _, f := range l.records {
		if f != unknown {
			n++
		}
	}
	for _, revisions := range l.revisions {
		n += revisions
	}
	return n
}
