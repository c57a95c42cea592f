package bridges

import (
	"math"
	"slices"

	"signalbox/broker/messaging"
)

// plan determines which messages of the broker a link takes, and for which topic mappings. It is
// immutable, and replaced as a whole.
type plan struct {
	routes   []route
	openings []opening    // in the order of their subscriptions
	places   map[*tap]int // indices of openings
}

// route is the filters of a topic mapping.
type route struct {
	mapping string
	filters []string
	enter   func(mapping string, m *messaging.Message) bool // nil to accept all messages
}

// admits reports whether a message is to be queued. It may change the message.
func (r *route) admits(m *messaging.Message) bool { return r.enter == nil || r.enter(r.mapping, m) }

// takes reports whether a topic matches the route.
func (r *route) takes(topic string) bool {
	return slices.ContainsFunc(r.filters, func(f string) bool { return matches(f, topic) })
}

// opening is a tap of a plan. Of all that are open for a topic, the first takes the message:
// so each message is taken once, even if filters overlap, and the same tap takes it before and
// after the plan is replaced. A tap that is about to end takes messages up to a deadline, and
// the next one takes later messages: both are open around the deadline.
type opening struct {
	*tap
	until  int64    // epoch milliseconds
	ahead  []int    // earlier openings whose filters overlap with this one's
	routes []*route // routes whose filters overlap with this one's
}

// always is the until of a tap without a deadline.
const always = math.MaxInt64

// newPlan creates a plan.
func newPlan(routes []route, openings []opening) *plan {
	p := &plan{routes: routes, openings: openings, places: make(map[*tap]int, len(openings))}
	for i := range p.openings {
		o := &p.openings[i]
		p.places[o.tap] = i
		o.ahead, o.routes = nil, nil
		for j := range i {
			if overlap(p.openings[j].filter, o.filter) {
				o.ahead = append(o.ahead, j)
			}
		}
		for j := range p.routes {
			r := &p.routes[j]
			if slices.ContainsFunc(r.filters, func(f string) bool { return overlap(f, o.filter) }) {
				o.routes = append(o.routes, r)
			}
		}
	}
	return p
}

// opening returns the opening of a tap, nil if the plan does not have it.
func (p *plan) opening(in *tap) *opening {
	if i, ok := p.places[in]; ok {
		return &p.openings[i]
	}
	return nil
}

// responsible reports whether an opening has to take a message.
func (p *plan) responsible(o *opening, topic string, at int64) bool {
	if at > o.until {
		return false
	}
	for _, j := range o.ahead {
		if other := &p.openings[j]; at <= other.until && matches(other.filter, topic) {
			return false
		}
	}
	return true
}

// next returns the plan for other routes. Taps whose filters are still needed stay; fresh must
// be subscribed once the plan is in force, stale must be closed: at once if no other tap takes
// over their topics, otherwise after until.
func (p *plan) next(l *link, routes []route, until int64) (n *plan, fresh, stale []*tap) {
	wanted := map[string]bool{}
	var order []string
	for _, r := range routes {
		for _, f := range r.filters {
			if !wanted[f] {
				wanted[f] = true
				order = append(order, f)
			}
		}
	}
	have := map[string]bool{}
	var openings []opening
	for _, o := range p.openings {
		if wanted[o.filter] && o.until == always {
			have[o.filter] = true
		} else {
			o.until = min(o.until, until)
			stale = append(stale, o.tap)
		}
		openings = append(openings, opening{tap: o.tap, until: o.until})
	}
	for _, f := range order {
		if !have[f] {
			in := &tap{link: l, filter: f}
			fresh = append(fresh, in)
			openings = append(openings, opening{tap: in, until: always})
		}
	}
	return newPlan(routes, openings), fresh, stale
}

// without returns the plan without closed taps.
func (p *plan) without(closed []*tap) *plan {
	var openings []opening
	for _, o := range p.openings {
		if !slices.Contains(closed, o.tap) {
			openings = append(openings, opening{tap: o.tap, until: o.until})
		}
	}
	return newPlan(p.routes, openings)
}

// relieved reports whether a tap may be closed at once, because no remaining one takes over
// its topics.
func (p *plan) relieved(in *tap) bool {
	return !slices.ContainsFunc(p.openings, func(o opening) bool {
		return o.tap != in && o.until == always && overlap(o.filter, in.filter)
	})
}

// added returns the filters of routes that the plan does not have.
func (p *plan) added(routes []route) []route {
	var all []route
	for _, r := range routes {
		known := func(f string) bool {
			return slices.ContainsFunc(p.routes, func(o route) bool { return o.mapping == r.mapping && slices.Contains(o.filters, f) })
		}
		r.filters = slices.DeleteFunc(slices.Clone(r.filters), known)
		if len(r.filters) > 0 {
			all = append(all, r)
		}
	}
	return all
}
