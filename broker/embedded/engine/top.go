package engine

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/tidwall/btree"

	"signalbox/broker/ranking"
)

// Figure is a figure by which sessions are ranked.
type Figure int

// The figures.
const (
	FigureQueue         Figure = iota // messages that wait, without those in flight
	FigureDropped                     // messages that the client did not get
	FigureInflight                    // messages in flight, in both directions
	FigureSubscriptions               // of the session
)

// Ranked is a session with the figure by which it was ranked.
type Ranked struct {
	Info
	Figure float64
}

// rankedSession is an entry of a ranking in progress.
type rankedSession struct {
	session *Session
	figure  float64
}

func newSessionRanking(n int) *ranking.Ranking[rankedSession] {
	return ranking.New(n, func(a, b rankedSession) int {
		return ranking.HighestFirst(a.figure, b.figure, a.session.clientID, b.session.clientID)
	})
}

// ranked returns the entries with the details of their sessions.
func ranked(r *ranking.Ranking[rankedSession]) []Ranked {
	top := []Ranked{}
	for _, one := range r.Sorted() {
		top = append(top, Ranked{one.session.info(), one.figure})
	}
	return top
}

// Top returns the n sessions with the highest figures, the highest first and equal ones by
// client id, without those whose figure is 0; and the number of all sessions.
func (e *Engine) Top(f Figure, n int) (total int, top []Ranked) {
	snapshot := e.snapshot()
	r := newSessionRanking(n)
	snapshot.Scan(func(s *Session) bool {
		if v := s.figure(f); v > 0 {
			r.Add(rankedSession{s, float64(v)})
		}
		return true
	})
	return snapshot.Len(), ranked(r)
}

// Rate is the messages per second from a client and to it.
type Rate struct{ In, Out float64 }

// TopByRate is Top by the messages per second from and to the clients, measured over a span
// of time that begins with the call. A session that begins meanwhile is not counted.
func (e *Engine) TopByRate(ctx context.Context, n int, span time.Duration) (total int, top []Ranked, err error) {
	snapshot := e.snapshot()
	rates, err := e.measure(ctx, snapshot.Scan, snapshot.Len(), span)
	if err != nil {
		return 0, nil, err
	}
	r := newSessionRanking(n)
	for s, rate := range rates {
		if v := rate.In + rate.Out; v > 0 {
			r.Add(rankedSession{s, v})
		}
	}
	return snapshot.Len(), ranked(r), nil
}

// ClientsWithRates is Clients with the messages per second of each, measured over a span of
// time that begins with the call.
func (e *Engine) ClientsWithRates(ctx context.Context, offset, count int, span time.Duration) (total int, part iter.Seq2[Info, Rate], err error) {
	total, n, sessions := e.part(offset, count)
	rates, err := e.measure(ctx, sessions, n, span)
	return total, func(yield func(Info, Rate) bool) {
		for s, rate := range rates {
			if !yield(s.info(), rate) {
				return
			}
		}
	}, err
}

// measured are the lower halves of the counts of a session before its rates are measured. A
// span is too short for more messages than they can count.
type measured struct{ in, out uint32 }

// measure returns n sessions with their messages per second, after a span of time in which they
// are counted.
func (e *Engine) measure(ctx context.Context, sessions func(yield func(*Session) bool), n int, span time.Duration) (iter.Seq2[*Session, Rate], error) {
	before := make([]measured, 0, n)
	for s := range sessions {
		before = append(before, s.counts.measured())
	}
	began := time.Now()
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("measure the rates of the clients: %w", context.Cause(ctx))
	case <-e.ctx.Done():
		return nil, fmt.Errorf("measure the rates of the clients: %w", context.Cause(e.ctx))
	}
	seconds := time.Since(began).Seconds()
	return func(yield func(*Session, Rate) bool) {
		i := 0
		for s := range sessions {
			now := s.counts.measured()
			if !yield(s, Rate{float64(now.in-before[i].in) / seconds, float64(now.out-before[i].out) / seconds}) {
				return
			}
			i++
		}
	}, nil
}

// snapshot returns the sessions of now, in order of client ids.
func (e *Engine) snapshot() *btree.BTreeG[*Session] {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ordered.Copy()
}

// figure returns a figure of the session.
func (s *Session) figure(f Figure) int64 {
	if f == FigureDropped {
		return s.counts.allDropped()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f {
	case FigureQueue:
		return int64(s.out.waiting() - s.out.inflight)
	case FigureInflight:
		return int64(s.out.inflight + len(s.incoming.ids))
	}
	return int64(len(s.subscribed.options))
}

// measured returns what rates are measured by.
func (c *counts) measured() measured {
	return measured{uint32(c.published.Load()), uint32(c.delivered.Load())} //nolint:gosec // the lower half is meant
}

// allDropped returns the number of messages that the client did not get.
func (c *counts) allDropped() (n int64) {
	for i := range c.dropped {
		n += c.dropped[i].Load()
	}
	return n
}
