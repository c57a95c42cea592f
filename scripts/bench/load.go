//go:build linux

package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// call makes one call: the n-th of a round, by one of its callers.
type call func(caller, n int) error

// cost is the cost of calls to the server, and their latency.
type cost struct {
	cpu       float64 // of the server, µs per call
	p50, p99  float64 // latency, µs
	perSecond float64
}

// subject is a load on a server, to be compared with others. Undo, if not nil, reverts
// each call and is not measured.
type subject struct {
	server   *child
	others   []*child // the other nodes of its cluster, whose processor time counts as well
	callers  int
	calls    int // in a round
	do, undo call
}

// turns is how many parts a round of calls has. The subjects alternate part by part, so
// that all of them run under the same conditions.
const turns = 10

// compare measures that many rounds of each subject, after one turn that does not
// count.
func compare(rounds int, subjects ...subject) ([]series, error) {
	got := make([]series, len(subjects))
	if _, err := playRound(subjects, 1); err != nil {
		return nil, err
	}
	for range rounds {
		tallies, err := playRound(subjects, turns)
		if err != nil {
			return nil, err
		}
		for i := range tallies {
			got[i].add(tallies[i].cost())
		}
	}
	return got, nil
}

// playRound plays the turns of each subject, in changing order.
func playRound(subjects []subject, turns int) ([]tally, error) {
	tallies := make([]tally, len(subjects))
	for turn := range turns {
		for i := range subjects {
			if turn%2 == 1 {
				i = len(subjects) - 1 - i
			}
			if err := subjects[i].play(turn, &tallies[i]); err != nil {
				return nil, err
			}
		}
	}
	return tallies, nil
}

// play makes the calls of one turn.
func (s subject) play(turn int, t *tally) error {
	calls := max(1, s.calls/turns)
	shifted := func(do call) call {
		return func(caller, n int) error { return do(caller, turn*calls+n) }
	}
	before, err := sumCPU(s.server, s.others)
	if err != nil {
		return err
	}
	began := time.Now()
	took, err := runCalls(s.callers, calls, shifted(s.do))
	if err != nil {
		return err
	}
	t.wall += time.Since(began)
	t.took = append(t.took, took...)
	after, err := sumCPU(s.server, s.others)
	t.cpu += after - before
	if s.undo == nil || err != nil {
		return err
	}
	_, err = runCalls(s.callers, calls, shifted(s.undo))
	return err
}

// tally is the sum of turns.
type tally struct {
	cpu, wall time.Duration
	took      []time.Duration
}

func (t *tally) cost() cost {
	slices.Sort(t.took)
	calls := float64(len(t.took))
	at := func(share float64) float64 { return micros(t.took[int(share*(calls-1))]) }
	return cost{cpu: micros(t.cpu) / calls, p50: at(0.5), p99: at(0.99), perSecond: calls / t.wall.Seconds()}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// runCalls makes the calls n = 0, 1, … with that many concurrent callers, each of which
// makes its next call when the last one has returned. The first error ends it.
func runCalls(callers, calls int, do call) ([]time.Duration, error) {
	took, errs := make([]time.Duration, calls), make([]error, callers)
	var next atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < calls; n = int(next.Add(1)) - 1 {
				began := time.Now()
				if errs[caller] = do(caller, n); errs[caller] != nil {
					next.Store(int64(calls))
					return
				}
				took[n] = time.Since(began)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return took, nil
}

// series is the costs of one subject, a value per round.
type series struct{ cpu, p50, p99, perSecond samples }

// String returns the medians.
func (s series) String() string {
	return fmt.Sprintf("CPU %.0f µs, p50 %.0f µs, p99 %.0f µs", s.cpu.median(), s.p50.median(), s.p99.median())
}

func (s *series) add(c cost) {
	s.cpu = append(s.cpu, c.cpu)
	s.p50 = append(s.p50, c.p50)
	s.p99 = append(s.p99, c.p99)
	s.perSecond = append(s.perSecond, c.perSecond)
}
