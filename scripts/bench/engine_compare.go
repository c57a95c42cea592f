//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/scripts/bench/load"
)

// outcome is the result of a load with one competitor, a value per round. If messages
// were lost it has an error instead.
type outcome struct {
	competitor
	cpu       samples // of the broker, seconds per million delivered messages
	perSecond samples // delivered messages
	p50, p99  samples // latencies, µs; of loads with a rate
	dropped   samples // percentage that a stream dropped
	err       error
}

// loadedCompetitor is a competitor with a load of its own.
type loadedCompetitor struct {
	competitor
	load.Scenario
}

// compare runs a load with each competitor, in interleaved rounds.
func (b *bench) compare(ctx context.Context, e load.Scenario, competitors ...competitor) ([]*outcome, error) {
	var loaded []loadedCompetitor
	for _, r := range competitors {
		loaded = append(loaded, loadedCompetitor{r, e})
	}
	return b.compareLoads(ctx, b.rounds, b.share, loaded...)
}

// compareLoads runs the load of each competitor, in interleaved rounds. A round has one
// of share messages of the load; the first round does not count.
func (b *bench) compareLoads(ctx context.Context, rounds, share int, loaded ...loadedCompetitor) (all []*outcome, err error) {
	var sessions []load.Session
	defer func() {
		for _, s := range sessions {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, e := range loaded {
		s, err := e.Load.Open(ctx, e.target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		sessions = append(sessions, s)
		all = append(all, &outcome{competitor: e.competitor})
	}
	for round := range rounds + 1 {
		for i := range all {
			if round%2 == 1 {
				i = len(all) - 1 - i
			}
			all[i].run(ctx, sessions[i], loaded[i].Messages/share, round > 0)
		}
	}
	return all, ctx.Err()
}

// run runs a round, unless the competitor has failed before.
func (o *outcome) run(ctx context.Context, s load.Session, messages int, counts bool) {
	if o.err != nil {
		return
	}
	before, err := o.spent()
	if err != nil {
		o.err = err
		return
	}
	pass, err := s.Play(ctx, messages)
	if err != nil {
		o.err = err
		return
	}
	after, err := o.spent()
	if o.err = err; err == nil && counts {
		o.add(pass, after-before)
	}
}

func (o *outcome) add(p load.Pass, cpu time.Duration) {
	delivered := float64(p.Delivered)
	o.cpu = append(o.cpu, cpu.Seconds()/delivered*1e6)
	o.perSecond = append(o.perSecond, delivered/p.Took.Seconds())
	o.dropped = append(o.dropped, 100*float64(p.Dropped)/(delivered+float64(p.Dropped)))
	if n := len(p.Latencies); n > 0 {
		o.p50 = append(o.p50, micros(p.Latencies[n/2]))
		o.p99 = append(o.p99, micros(p.Latencies[n*99/100]))
	}
}

// String returns the medians.
func (o *outcome) String() string {
	text := fmt.Sprintf("%s %.1f CPU-s a million, %.0f /s", o.name, o.cpu.median(), o.perSecond.median())
	if len(o.p50) > 0 {
		text += fmt.Sprintf(", p50 %.0f µs, p99 %.0f µs", o.p50.median(), o.p99.median())
	}
	return text
}

// failed reports an outcome that is an error, and reports whether it is one.
func (b *bench) failed(title string, o *outcome) bool {
	if o.err != nil {
		b.report.fail(title+": "+o.name, o.err)
	}
	return o.err != nil
}

// ratio reports the CPU of one outcome relative to another's.
func (b *bench) ratio(title string, o, base *outcome, l limit) {
	if b.failed(title, o) || b.failed(title, base) {
		return
	}
	b.report.add(fmt.Sprintf("%s: CPU, %s : %s", title, o.name, base.name), fmt.Sprintf("%s; %s", o, base), o.cpu.over(base.cpu), "%.2f ×", l)
}
