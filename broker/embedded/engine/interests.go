package engine

import (
	"context"
	"strings"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Routes announces to other nodes which filters have subscribers here. Joined and Left are
// called with a session's lock held: they must not block, nor call the engine. For a
// subscription that changes, Joined is called with the new state before Left with the old.
type Routes interface {
	Joined(filter string, i Interest)
	Left(filter string, i Interest)
	// Known waits until the other nodes that can be reached have everything that was
	// announced before.
	Known(ctx context.Context)
}

// interestNotifier is a Routes that is identified by its address.
type interestNotifier struct{ Routes }

// announcedTo is to which Routes a session has announced its subscriptions, and how. As the
// session has it, SetRoutes may be called at any time.
type announcedTo struct {
	to        *interestNotifier // nil for none
	away      bool
	temporary bool
}

// SetRoutes sets the Routes to which all subscriptions, and those of taps, are announced,
// beginning with those that exist; nil removes it.
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

// announceTaps sets the notifier, and announces the open taps.
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

// tapInterest is the Interest of a tap. It takes messages that are published while its node
// serves clients.
var tapInterest = Interest{QoS: 2, Temporary: true}

// local reports whether a filter matches only topics of this node itself: its status, and
// responses to requests.
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

// interest returns the Interest of a subscription.
func (a announcedTo) interest(filter string, o topics.Options) Interest {
	_, _, shared := packet.SplitShared(filter)
	return Interest{QoS: o.QoS, Away: a.away && shared, Temporary: a.temporary}
}

// announceAll announces all subscriptions of the session unless that was done. They are announced
// again if the session has another expiry since, and shared ones if the client has connected or
// disconnected. mu is held.
func (s *Session) announceAll(t *interestNotifier) {
	before := s.subscribed.announced
	now := announcedTo{t, s.conn == nil, !s.keeps()}
	s.subscribed.announced = now
	if t == nil || before == now {
		return
	}
	again := before.to == t
	for filter, o := range s.subscribed.options {
		was, is := before.interest(filter, o), now.interest(filter, o)
		if again && was == is {
			continue
		}
		t.joined(filter, is)
		if again {
			t.left(filter, was)
		}
	}
}

// announceJoined announces a new or changed subscription of the session. mu is held.
func (s *Session) announceJoined(filter string, replaced bool, before topics.Options) {
	t := s.engine.interests.Load()
	if t == nil {
		return
	}
	if s.subscribed.announced.to != t {
		s.announceAll(t)
		return
	}
	t.joined(filter, s.subscribed.announced.interest(filter, s.subscribed.options[filter]))
	if replaced {
		t.left(filter, s.subscribed.announced.interest(filter, before))
	}
}

// announceLeft announces that the session no longer has a subscription. mu is held.
func (s *Session) announceLeft(filter string, before topics.Options) {
	if t := s.engine.interests.Load(); t != nil && s.subscribed.announced.to == t {
		t.left(filter, s.subscribed.announced.interest(filter, before))
	}
}

// announcePresence announces that the client has connected or disconnected. mu is held.
func (s *Session) announcePresence() {
	if t := s.engine.interests.Load(); t != nil {
		s.announceAll(t)
	}
}

// awaitRoutes waits until other nodes have the routes of this node's subscriptions, for at
// most RoutesPatience.
func (e *Engine) awaitRoutes() {
	t := e.interests.Load()
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, e.config.RoutesPatience)
	defer cancel()
	t.Known(ctx)
}
