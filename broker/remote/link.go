package remote

import (
	"context"
	"sync"
	"time"

	"signalbox/broker"
)

// phase is where a link is between its sessions.
type phase int

const (
	connecting phase = iota // the first attempt, or the first after a loss
	established
	resting  // the last attempt failed, the next one waits
	retrying // an attempt after one that failed
	closed
)

// link is the state of a broker's connection as seen from outside. Run changes
// it, everybody looks at it.
type link struct {
	now func() time.Time

	mu      sync.Mutex // guards the fields below; never held while waiting
	phase   phase
	since   time.Time     // of the last change between reached and not reached
	session *session      // while established
	offered *offer        // by the last session that was established
	reached bool          // there was a session
	cause   *broker.Error // why there is no session, once one failed or was lost
	changed chan struct{} // closed at the next change
}

func newLink(now func() time.Time) *link {
	return &link{now: now, since: now(), offered: &offer{}, changed: make(chan struct{})}
}

// enter changes the phase and wakes those who wait for that. The caller holds mu.
func (l *link) enter(p phase) {
	if (l.phase == established) != (p == established) {
		l.since = l.now()
	}
	l.phase = p
	close(l.changed)
	l.changed = make(chan struct{})
}

// attempt notes that an attempt begins.
func (l *link) attempt() { l.from(resting, retrying) }

// rest notes that the next attempt has to wait.
func (l *link) rest() { l.from(connecting, resting) }

// from changes the phase if it is the given one.
func (l *link) from(p, next phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == p {
		l.enter(next)
	}
}

// up notes that a session stands.
func (l *link) up(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.offered, l.cause, l.reached = s, &s.offered, nil, true
	l.enter(established)
}

// down notes why there is no session, and what comes next.
func (l *link) down(cause *broker.Error, p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.cause = nil, cause
	l.enter(p)
}

// close notes that there will be no session any more.
func (l *link) close(cause *broker.Error) { l.down(cause, closed) }

func (l *link) status() broker.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := broker.Status{Connected: l.phase == established, Since: l.since}
	if l.cause != nil {
		s.Error = l.cause.Msg
	}
	return s
}

func (l *link) capabilities() []broker.Capability {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	return o.list()
}

// offers tells whether the broker itself has what was asked for, as far as known.
func (l *link) offers(c broker.Capability) bool {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	return o.has(c)
}

// known tells whether the broker was ever reached, so that what it offers is known.
func (l *link) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// ready waits for the outcome of the attempt under way.
func (l *link) ready(ctx context.Context) error {
	_, err := l.wait(ctx, connecting, retrying)
	return err
}

// current gives the session that stands. It waits for an attempt under way
// only where there is hope: when the attempt before it did not fail.
func (l *link) current(ctx context.Context) (*session, error) {
	return l.wait(ctx, connecting)
}

// wait waits while the link is in one of the phases. It gives the session, the
// cause why there is none, or the context's error.
func (l *link) wait(ctx context.Context, phases ...phase) (*session, error) {
	for {
		s, changed, err := l.look(phases)
		if changed == nil {
			return s, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look gives a channel to wait on if the link is in one of the phases.
func (l *link) look(phases []phase) (*session, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range phases {
		if l.phase == p {
			return nil, l.changed, nil
		}
	}
	switch {
	case l.phase != established:
		return nil, nil, l.cause
	case l.session.over():
		return nil, l.changed, nil // it was lost just now, and down is about to say so
	}
	return l.session, nil, nil
}
