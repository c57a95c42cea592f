package engine

import (
	"context"
	"strings"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Routes announces to other nodes which filters have subscribers here. Joined and Left are called with a session's lock held: they must
// not block, nor call the engine. Of a subscription that changes, the new state
// comes before the old one leaves.
type Routes interface {
	Joined(filter string, i Interest)
	Left(filter string, i Interest)
	// Known waits until the other nodes that can be reached know of all that was
	// told before.
	Known(ctx context.Context)
}

// interestNotifier is one Routes; its address identifies it in announcedTo.
type interestNotifier struct{ Routes }

// announcedTo is what a session has announced, and to which Routes.
type announcedTo struct {
	to   *interestNotifier // nil for none
	away bool
}

// SetRoutes has all subscriptions, and those of taps, announced from now on, beginning
// with those that exist; nil ends that.
func (e *Engine) SetRoutes(r Routes) {
	var t *interestNotifier
	if r != nil {
		t = &interestNotifier{r}
	}
	e.announceTaps(t)
	for _, s := range e.all() {
		s.mu.Lock()
		s.announceAll(t)
		s.mu.Unlock()
	}
}

// announceTaps changes who is notified, and announces which taps are open.
func (e *Engine) announceTaps(t *interestNotifier) {
	e.openTapsMu.Lock()
	defer e.openTapsMu.Unlock()
	e.interests.Store(t)
	if t == nil {
		return
	}
	for tap := range e.openTaps {
		t.joined(tap.filter, tapInterest)
	}
}

// tapInterest is what a tap asks for.
var tapInterest = Interest{QoS: 2}

// local reports whether a filter can only match what concerns this node alone:
// what the broker tells about itself, and answers to requests.
func local(filter string) bool {
	if _, inner, shared := packet.SplitShared(filter); shared {
		filter = inner
	}
	return strings.HasPrefix(filter, "$SYS/") || strings.HasPrefix(filter, controlPrefix)
}

func (t *interestNotifier) joined(filter string, i Interest) {
	if !local(filter) {
		t.Joined(filter, i)
	}
}

func (t *interestNotifier) left(filter string, i Interest) {
	if !local(filter) {
		t.Left(filter, i)
	}
}

// interest is what a session asks for by a subscription.
func interest(filter string, o topics.Options, away bool) Interest {
	_, _, shared := packet.SplitShared(filter)
	return Interest{QoS: o.QoS, Away: away && shared}
}

// announceAll announces all subscriptions of the session, unless that was done; and the
// shared ones again where the client has come or gone since. mu is held.
func (s *Session) announceAll(t *interestNotifier) {
	before := s.subscribed.announced
	s.subscribed.announced = announcedTo{t, s.conn == nil}
	if t == nil || before == s.subscribed.announced {
		return
	}
	again := before.to == t
	for filter, o := range s.subscribed.options {
		if _, _, shared := packet.SplitShared(filter); again && !shared {
			continue
		}
		t.joined(filter, interest(filter, o, s.subscribed.announced.away))
		if again {
			t.left(filter, interest(filter, o, before.away))
		}
	}
}

// announceJoined announces one subscription that the session has now, and what it was
// before, if it was. mu is held.
func (s *Session) announceJoined(filter string, replaced bool, before topics.Options) {
	t := s.engine.interests.Load()
	if t == nil {
		return
	}
	if s.subscribed.announced.to != t {
		s.announceAll(t)
		return
	}
	t.joined(filter, interest(filter, s.subscribed.options[filter], s.subscribed.announced.away))
	if replaced {
		t.left(filter, interest(filter, before, s.subscribed.announced.away))
	}
}

// announceLeft announces that the session no longer has a subscription. mu is held.
func (s *Session) announceLeft(filter string, before topics.Options) {
	if t := s.engine.interests.Load(); t != nil && s.subscribed.announced.to == t {
		t.left(filter, interest(filter, before, s.subscribed.announced.away))
	}
}

// announcePresence announces that the client has connected or disconnected. mu is held.
func (s *Session) announcePresence() {
	if t := s.engine.interests.Load(); t != nil {
		s.announceAll(t)
	}
}

// awaitRoutes waits until other nodes know of subscriptions that are in force.
func (e *Engine) awaitRoutes() {
	t := e.interests.Load()
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(e.life, e.config.RoutesPatience)
	defer cancel()
	t.Known(ctx)
}
