package engine

import (
	"context"
	"fmt"
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

// TopByRate is Top by the messages per second from and to the clients, measured over a span
// of time that begins with the call. A session that begins meanwhile is not counted.
func (e *Engine) TopByRate(ctx context.Context, n int, span time.Duration) (total int, top []Ranked, err error) {
	snapshot := e.snapshot()
	before := make([]int64, 0, snapshot.Len())
	snapshot.Scan(func(s *Session) bool {
		before = append(before, s.counts.messages())
		return true
	})
	began := time.Now()
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, nil, fmt.Errorf("measure the rates of the clients: %w", context.Cause(ctx))
	case <-e.ctx.Done():
		return 0, nil, fmt.Errorf("measure the rates of the clients: %w", context.Cause(e.ctx))
	}
	seconds, r, i := time.Since(began).Seconds(), newSessionRanking(n), 0
	snapshot.Scan(func(s *Session) bool {
		if grown := s.counts.messages() - before[i]; grown > 0 {
			r.Add(rankedSession{s, float64(grown) / seconds})
		}
		i++
		return true
	})
	return snapshot.Len(), ranked(r), nil
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

// messages returns the number of messages from and to the client.
func (c *counts) messages() int64 { return c.published.Load() + c.delivered.Load() }

// allDropped returns the number of messages that the client did not get.
func (c *counts) allDropped() (n int64) {
	for i := range c.dropped {
		n += c.dropped[i].Load()
	}
	return n
}
