package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
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
	now    func() time.Time
	timing timing
	wake   chan struct{} // holds an entry where the next attempt is to be made earlier

	mu      sync.Mutex // guards the fields below; never held while waiting
	phase   phase
	since   time.Time     // of the last change between reached and not reached
	session *session      // while established
	offered *offer        // by the last session that was established
	reached bool          // there was a session
	cause   *broker.Error // why there is no session, once one failed or was lost
	ended   time.Time     // when that came about
	begun   time.Time     // when the last attempt began
	changed chan struct{} // closed at the next change
}

func newLink(now func() time.Time, t timing) *link {
	return &link{now: now, timing: t, wake: make(chan struct{}, 1), since: now(), offered: &offer{}, changed: make(chan struct{})}
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

// attempt notes that an attempt begins. It is the one that somebody may be
// waiting for.
func (l *link) attempt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.wake:
	default:
	}
	l.begun = l.now()
	if l.phase == resting {
		l.enter(retrying)
	}
}

// rest notes that the next attempt has to wait.
func (l *link) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == connecting {
		l.enter(resting)
	}
}

// urge has the next attempt made now, if there was none lately and the broker was
// just not there: one that refuses log-ins may ban who comes too often. It tells
// how long an attempt under way is worth waiting for.
func (l *link) urge() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == resting && l.away() && l.now().Sub(l.ended) >= l.timing.urge {
		l.retryNow()
	}
	if l.phase != retrying {
		return 0
	}
	return l.begun.Add(l.timing.hope).Sub(l.now())
}

// retryNow has the next attempt made now. The caller holds mu, and the link rests.
func (l *link) retryNow() {
	l.begun = l.now()
	l.enter(retrying)
	select {
	case l.wake <- struct{}{}:
	default: // run is about to look
	}
}

// away tells whether the broker could not be connected to, or was lost. The caller
// holds mu.
func (l *link) away() bool {
	f, ok := errors.AsType[*failure](l.cause)
	return ok && (f.Stage == dial.StageDial || f.Stage == attending)
}

// up notes that a session stands.
func (l *link) up(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.offered, l.cause, l.reached = s, s.offered, nil, true
	l.enter(established)
}

// down notes why there is no session, and what comes next.
func (l *link) down(cause *broker.Error, p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.cause, l.ended = nil, cause, l.now()
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
	if l.reached {
		s.Missing = l.offered.lacking()
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

// hasBridge tells whether the broker told of a bridge when the session began.
func (l *link) hasBridge(bridgeID string) bool {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	return o.bridges.has(bridgeID)
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

// current gives the session that stands. It waits for an attempt under way where
// there is hope: when the attempt before it did not fail; otherwise as long as that
// is fresh.
func (l *link) current(ctx context.Context) (*session, error) {
	if broker.WantsFreshAttempt(ctx) {
		return l.fresh(ctx)
	}
	hope := l.urge()
	if hope <= 0 {
		return l.wait(ctx, connecting)
	}
	fresh, cancel := context.WithTimeout(ctx, hope)
	defer cancel()
	if s, err := l.wait(fresh, connecting, retrying); err == nil || fresh.Err() == nil {
		return s, err
	}
	return l.wait(ctx, connecting)
}

// fresh returns the session that stands, or the cause why an attempt failed that
// was begun since fresh was called. A broker that refused the last log-in is not
// tried again: it may ban who comes too often.
func (l *link) fresh(ctx context.Context) (*session, error) {
	for asked := l.now(); ; {
		l.wakeUp(asked)
		s, err := l.wait(ctx, connecting, retrying)
		if err != nil && ctx.Err() != nil {
			return nil, l.causeOr(err)
		}
		if err == nil || !l.stale(asked) {
			return s, err
		}
	}
}

// causeOr returns why there is no session, or an error where nothing is known of
// that.
func (l *link) causeOr(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		return err
	}
	return l.cause
}

// stale reports whether the last attempt was begun before a time, and the broker
// was just not there.
func (l *link) stale(asked time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase == resting && l.away() && l.begun.Before(asked)
}

// wakeUp has the next attempt made now, if the last one is stale.
func (l *link) wakeUp(asked time.Time) {
	if !l.stale(asked) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retryNow()
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
