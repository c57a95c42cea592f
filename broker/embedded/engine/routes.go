package engine

import (
	"context"
	"strings"

	"signalbox/broker/mqtt/packet"
	"signalbox/broker/mqtt/topics"
)

// Routes is told which filters there are subscribers for, so that other nodes
// get to know. Joined and Left are called with a session's lock held: they must
// not block, nor call the engine. Of a subscription that changes, the new state
// comes before the old one leaves.
type Routes interface {
	Joined(filter string, i Interest)
	Left(filter string, i Interest)
	// Known waits until the other nodes that can be reached know of all that was
	// told before.
	Known(ctx context.Context)
}

// teller tells one Routes; which sessions have told it is known by its address.
type teller struct{ Routes }

// told is what a session has told, and to whom.
type told struct {
	to   *teller // nil for nobody
	away bool
}

// SetRoutes has all subscriptions, and those of taps, told from now on, beginning
// with those that there are; nil ends that.
func (e *Engine) SetRoutes(r Routes) {
	var t *teller
	if r != nil {
		t = &teller{r}
	}
	e.tellOpened(t)
	for _, s := range e.all() {
		s.mu.Lock()
		s.tell(t)
		s.mu.Unlock()
	}
}

// tellOpened changes who is told, and tells what taps are open.
func (e *Engine) tellOpened(t *teller) {
	e.opening.Lock()
	defer e.opening.Unlock()
	e.teller.Store(t)
	if t == nil {
		return
	}
	for tap := range e.opened {
		t.joined(tap.filter, tapped)
	}
}

// tapped is what a tap asks for.
var tapped = Interest{QoS: 2}

// local tells whether a filter can only match what concerns this node alone:
// what the broker tells about itself, and answers to requests.
func local(filter string) bool {
	if _, inner, shared := packet.SplitShared(filter); shared {
		filter = inner
	}
	return strings.HasPrefix(filter, "$SYS/") || strings.HasPrefix(filter, controlPrefix)
}

func (t *teller) joined(filter string, i Interest) {
	if !local(filter) {
		t.Joined(filter, i)
	}
}

func (t *teller) left(filter string, i Interest) {
	if !local(filter) {
		t.Left(filter, i)
	}
}

// interest is what a session asks for by a subscription.
func interest(filter string, o topics.Options, away bool) Interest {
	_, _, shared := packet.SplitShared(filter)
	return Interest{QoS: o.QoS, Away: away && shared}
}

// tell tells all subscriptions of the session, unless that was done; and the
// shared ones again where the client has come or gone since. mu is held.
func (s *Session) tell(t *teller) {
	before := s.told
	s.told = told{t, s.conn == nil}
	if t == nil || before == s.told {
		return
	}
	again := before.to == t
	for filter, o := range s.subscribed {
		if _, _, shared := packet.SplitShared(filter); again && !shared {
			continue
		}
		t.joined(filter, interest(filter, o, s.told.away))
		if again {
			t.left(filter, interest(filter, o, before.away))
		}
	}
}

// tellOne tells of one subscription that the session has now, and what it was
// before, if it was. mu is held.
func (s *Session) tellOne(filter string, replaced bool, before topics.Options) {
	t := s.engine.teller.Load()
	if t == nil {
		return
	}
	if s.told.to != t {
		s.tell(t)
		return
	}
	t.joined(filter, interest(filter, s.subscribed[filter], s.told.away))
	if replaced {
		t.left(filter, interest(filter, before, s.told.away))
	}
}

// tellLeft tells that the session has a subscription no more. mu is held.
func (s *Session) tellLeft(filter string, before topics.Options) {
	if t := s.engine.teller.Load(); t != nil && s.told.to == t {
		t.left(filter, interest(filter, before, s.told.away))
	}
}

// tellPresence tells that the client has come or gone. mu is held.
func (s *Session) tellPresence() {
	if t := s.engine.teller.Load(); t != nil {
		s.tell(t)
	}
}

// awaitRoutes waits until other nodes know of subscriptions that are in force.
func (e *Engine) awaitRoutes() {
	t := e.teller.Load()
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(e.life, e.config.RoutesPatience)
	defer cancel()
	t.Known(ctx)
}
