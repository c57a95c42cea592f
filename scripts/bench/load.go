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

// measure has callers make that many calls and tells what they cost the child.
func (c *child) measure(callers, calls int, do call) (cost, error) {
	before, err := c.cpu()
	if err != nil {
		return cost{}, err
	}
	began := time.Now()
	took, err := hammer(callers, calls, do)
	if err != nil {
		return cost{}, err
	}
	wall := time.Since(began)
	after, err := c.cpu()
	slices.Sort(took)
	at := func(share float64) float64 { return micros(took[int(share*float64(calls-1))]) }
	return cost{cpu: micros(after-before) / float64(calls), p50: at(0.5), p99: at(0.99),
		perSecond: float64(calls) / wall.Seconds()}, err
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
