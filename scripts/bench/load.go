//go:build linux

package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// call does one call: the n-th of a round, by one of its callers.
type call func(caller, n int) error

// cost is what calls cost their server and their callers.
type cost struct {
	cpu       float64 // of the server, µs a call
	p50, p99  float64 // what a caller waits, µs
	perSecond float64
}

// subject is a load on a server that is compared with others. Undo, if there is
// one, takes each call back and is not measured.
type subject struct {
	server   *child
	others   []*child // the other nodes of its cluster, whose processor time counts as well
	callers  int
	calls    int // a round
	do, undo call
}

// turns is how many parts a round of calls has. Subjects take them in turns, so
// that all of them run under the same conditions on the machine.
const turns = 10

// compare measures that many rounds of each subject, after one turn that does
// not count.
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

// playRound has each subject take its turns; who begins changes.
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
	before, err := together(s.server, s.others)
	if err != nil {
		return err
	}
	began := time.Now()
	took, err := hammer(s.callers, calls, shifted(s.do))
	if err != nil {
		return err
	}
	t.wall += time.Since(began)
	t.took = append(t.took, took...)
	after, err := together(s.server, s.others)
	t.cpu += after - before
	if s.undo == nil || err != nil {
		return err
	}
	_, err = hammer(s.callers, calls, shifted(s.undo))
	return err
}

// tally sums up turns.
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

// hammer makes the calls n = 0, 1, … with that many callers at a time, each of
// which goes on as soon as it is answered. The first error ends it.
func hammer(callers, calls int, do call) ([]time.Duration, error) {
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

// series is the costs of one subject, a value for each round.
type series struct{ cpu, p50, p99, perSecond samples }

// String tells the medians.
func (s series) String() string {
	return fmt.Sprintf("CPU %.0f µs, p50 %.0f µs, p99 %.0f µs", s.cpu.median(), s.p50.median(), s.p99.median())
}

func (s *series) add(c cost) {
	s.cpu = append(s.cpu, c.cpu)
	s.p50 = append(s.p50, c.p50)
	s.p99 = append(s.p99, c.p99)
	s.perSecond = append(s.perSecond, c.perSecond)
}
