package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// phase is the state of a link.
type phase int

const (
	connecting phase = iota // the first attempt, or the first after a loss
	established
	waitingToRetry // the last attempt failed, the next one is due later
	retrying       // an attempt after a failed one
	closed
)

// link is the state of a broker's connection. Run changes it, operations wait for it.
type link struct {
	now    func() time.Time
	timing timing
	wake   chan struct{} // buffered by one: the next attempt is due now

	mu           sync.Mutex // guards the fields below; never held while waiting
	phase        phase
	since        time.Time       // time of the last change of established
	session      *session        // while established
	offered      *offer          // by the last established session
	seen         *dial.Handshake // in the last established session
	reached      bool            // there was a session
	cause        *broker.Error   // why there is no session, after a failure
	ended        time.Time       // time of cause
	attemptStart time.Time       // start of the last attempt
	changed      chan struct{}   // closed at the next change
}

func newLink(now func() time.Time, t timing) *link {
	return &link{now: now, timing: t, wake: make(chan struct{}, 1), since: now(), offered: &offer{}, changed: make(chan struct{})}
}

// setPhase changes the phase and wakes waiters. l.mu must be held.
func (l *link) setPhase(p phase) {
	if (l.phase == established) != (p == established) {
		l.since = l.now()
	}
	l.phase = p
	close(l.changed)
	l.changed = make(chan struct{})
}

// beginAttempt records the start of an attempt.
func (l *link) beginAttempt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.wake:
	default:
	}
	l.attemptStart = l.now()
	if l.phase == waitingToRetry {
		l.setPhase(retrying)
	}
}

// waitForRetry records that the next attempt is delayed.
func (l *link) waitForRetry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == connecting {
		l.setPhase(waitingToRetry)
	}
}

// retrySoon starts the next attempt now if the last one is not recent and the broker was
// unreachable: a broker that refuses the connection may ban frequent attempts. It returns how
// long to wait for an attempt in progress.
func (l *link) retrySoon() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase == waitingToRetry && l.unreachable() && l.now().Sub(l.ended) >= l.timing.retryInterval {
		l.retryNow()
	}
	if l.phase != retrying {
		return 0
	}
	return l.attemptStart.Add(l.timing.retryWait).Sub(l.now())
}

// retryNow starts the next attempt. l.mu must be held, in phase waitingToRetry.
func (l *link) retryNow() {
	l.attemptStart = l.now()
	l.setPhase(retrying)
	select {
	case l.wake <- struct{}{}:
	default: // run is about to receive from it
	}
}

// unreachable reports whether the broker could not be connected to, or was lost. l.mu must be
// held.
func (l *link) unreachable() bool {
	f, ok := errors.AsType[*failure](l.cause)
	return ok && (f.Stage == dial.StageDial || f.Stage == serving)
}

// connected records an established session.
func (l *link) connected(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.offered, l.seen, l.cause, l.reached = s, s.offered, s.seen, nil, true
	l.setPhase(established)
}

// disconnected records why there is no session, and the next phase.
func (l *link) disconnected(cause *broker.Error, p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.cause, l.ended = nil, cause, l.now()
	l.setPhase(p)
}

// close records that there will be no further session.
func (l *link) close(cause *broker.Error) { l.disconnected(cause, closed) }

func (l *link) status() broker.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := broker.Status{Connected: l.phase == established, Since: l.since}
	if l.cause != nil {
		s.Error = l.cause.Msg
	}
	if l.reached {
		s.Missing = l.offered.allMissing()
	}
	return s
}

func (l *link) capabilities() []broker.Capability {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	return o.list()
}

// offers reports whether the broker itself has a capability, as far as known.
func (l *link) offers(c broker.Capability) bool {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	return o.has(c)
}

// hasBridge reports whether the broker listed a bridge at the beginning of the session.
func (l *link) hasBridge(bridgeID string) bool {
	l.mu.Lock()
	o := l.offered
	l.mu.Unlock()
	return o.bridges.has(bridgeID)
}

// known reports whether the broker was ever reached, so that its capabilities are known.
func (l *link) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// ready waits for the result of the attempt in progress.
func (l *link) ready(ctx context.Context) error {
	_, err := l.wait(ctx, connecting, retrying)
	return err
}

// current returns the session. It waits for an attempt in progress if the attempt before did
// not fail, otherwise as long as that attempt is recent.
func (l *link) current(ctx context.Context) (*session, error) {
	if broker.WantsFreshAttempt(ctx) {
		return l.fresh(ctx)
	}
	maxWait := l.retrySoon()
	if maxWait <= 0 {
		return l.wait(ctx, connecting)
	}
	fresh, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if s, err := l.wait(fresh, connecting, retrying); err == nil || fresh.Err() == nil {
		return s, err
	}
	return l.wait(ctx, connecting)
}

// fresh returns the session, or the cause of an attempt that began after the call. A broker
// that refused the last CONNECT is not tried again: it may ban frequent attempts.
func (l *link) fresh(ctx context.Context) (*session, error) {
	for asked := l.now(); ; {
		l.wakeUp(asked)
		s, err := l.wait(ctx, connecting, retrying)
		if err != nil && ctx.Err() != nil {
			return nil, l.causeOr(err)
		}
		if err == nil || !l.isStale(asked) {
			return s, err
		}
	}
}

// causeOr returns why there is no session, or err if that is unknown.
func (l *link) causeOr(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause == nil {
		return err
	}
	return l.cause
}

// isStale reports whether the last attempt began before a time and the broker was unreachable.
func (l *link) isStale(asked time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase == waitingToRetry && l.unreachable() && l.attemptStart.Before(asked)
}

// wakeUp starts the next attempt now if the last one is stale.
func (l *link) wakeUp(asked time.Time) {
	if !l.isStale(asked) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retryNow()
}

// wait waits while the link is in one of the phases. It returns the session, the cause why
// there is none, or the context's error.
func (l *link) wait(ctx context.Context, phases ...phase) (*session, error) {
	for {
		s, changed, err := l.poll(phases)
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

// poll returns a channel to wait on if the link is in one of the phases.
func (l *link) poll(phases []phase) (*session, <-chan struct{}, error) {
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
	case l.session.ended():
		return nil, l.changed, nil // lost just now; disconnected follows
	}
	return l.session, nil, nil
}
