package bridges

import (
	"math"
	"slices"

	"signalbox/broker"
	"signalbox/broker/messaging"
)

// plan determines which messages of the broker a link takes, and for which topic mappings. It is
// immutable, and replaced as a whole.
type plan struct {
	routes  []route
	taps    []plannedTap // in the order of their subscriptions
	indices map[*tap]int // indices of taps
}

// route is the filters of a topic mapping.
type route struct {
	mapping string
	filters []string
	accept  func(mapping string, m *messaging.Message) bool // nil to accept all messages
}

// accepts reports whether a message is to be queued. It may change the message.
func (r *route) accepts(m *messaging.Message) bool { return r.accept == nil || r.accept(r.mapping, m) }

// matchesTopic reports whether a topic matches the route.
func (r *route) matchesTopic(topic string) bool {
	return slices.ContainsFunc(r.filters, func(f string) bool { return broker.FilterMatches(f, topic) })
}

// plannedTap is a tap of a plan. Of all that are open for a topic, the first takes the message:
// so each message is taken once, even if filters overlap, and the same tap takes it before and
// after the plan is replaced. A tap that is about to end takes messages up to a deadline, and
// the next one takes later messages: both are open around the deadline.
type plannedTap struct {
	*tap
	until   int64    // epoch milliseconds
	earlier []int    // earlier taps whose filters overlap with this one's
	routes  []*route // routes whose filters overlap with this one's
}

// always is the until of a tap without a deadline.
const always = math.MaxInt64

// newPlan creates a plan.
func newPlan(routes []route, taps []plannedTap) *plan {
	p := &plan{routes: routes, taps: taps, indices: make(map[*tap]int, len(taps))}
	for i := range p.taps {
		o := &p.taps[i]
		p.indices[o.tap] = i
		o.earlier, o.routes = nil, nil
		for j := range i {
			if overlap(p.taps[j].filter, o.filter) {
				o.earlier = append(o.earlier, j)
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

// find returns the planned tap, nil if the plan does not have it.
func (p *plan) find(in *tap) *plannedTap {
	if i, ok := p.indices[in]; ok {
		return &p.taps[i]
	}
	return nil
}

// mustTake reports whether a tap has to take a message.
func (p *plan) mustTake(o *plannedTap, topic string, at int64) bool {
	if at > o.until {
		return false
	}
	for _, j := range o.earlier {
		if other := &p.taps[j]; at <= other.until && broker.FilterMatches(other.filter, topic) {
			return false
		}
	}
	return true
}

// withRoutes returns the plan for other routes. Taps whose filters are still needed stay; fresh must
// be subscribed once the plan is in force, stale must be closed: at once if no other tap takes
// over their topics, otherwise after until.
func (p *plan) withRoutes(l *link, routes []route, until int64) (n *plan, fresh, stale []*tap) {
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
	var taps []plannedTap
	for _, o := range p.taps {
		if wanted[o.filter] && o.until == always {
			have[o.filter] = true
		} else {
			o.until = min(o.until, until)
			stale = append(stale, o.tap)
		}
		taps = append(taps, plannedTap{tap: o.tap, until: o.until})
	}
	for _, f := range order {
		if !have[f] {
			in := &tap{link: l, filter: f}
			fresh = append(fresh, in)
			taps = append(taps, plannedTap{tap: in, until: always})
		}
	}
	return newPlan(routes, taps), fresh, stale
}

// withoutTaps returns the plan without closed taps.
func (p *plan) withoutTaps(closed []*tap) *plan {
	var taps []plannedTap
	for _, o := range p.taps {
		if !slices.Contains(closed, o.tap) {
			taps = append(taps, plannedTap{tap: o.tap, until: o.until})
		}
	}
	return newPlan(p.routes, taps)
}

// canCloseAtOnce reports whether a tap may be closed at once, because no remaining one takes over
// its topics.
func (p *plan) canCloseAtOnce(in *tap) bool {
	return !slices.ContainsFunc(p.taps, func(o plannedTap) bool {
		return o.tap != in && o.until == always && overlap(o.filter, in.filter)
	})
}

// newFilters returns the filters of routes that the plan does not have.
func (p *plan) newFilters(routes []route) []route {
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
