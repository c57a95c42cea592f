package bridges

import (
	"math"
	"slices"

	"signalbox/broker/messaging"
)

// plan says which messages of the broker a link takes, and for which topic
// mappings. It is never changed, but replaced whole.
type plan struct {
	routes   []route
	openings []opening    // in the order in which they were subscribed
	places   map[*tap]int // of the openings
}

// route is what a topic mapping takes.
type route struct {
	mapping string
	filters []string
	enter   func(mapping string, m *messaging.Message) bool // nil where all are to be queued
}

// admits tells whether a message is to be queued, which it may change.
func (r *route) admits(m *messaging.Message) bool { return r.enter == nil || r.enter(r.mapping, m) }

// takes tells whether a route takes a topic.
func (r *route) takes(topic string) bool {
	return slices.ContainsFunc(r.filters, func(f string) bool { return matches(f, topic) })
}

// opening is a tap as a plan uses it. Of all that are open for a topic, the
// first takes the message: so each is taken once, however filters overlap, and
// the same tap takes it before and after the plan is replaced. One that is to
// go takes what came until a moment shortly after, and what comes later is for
// the next one: both are open around that moment.
type opening struct {
	*tap
	until  int64    // epoch milliseconds
	ahead  []int    // openings before it that are open for some topic of it
	routes []*route // those that take some topic of it
}

// always is the until of a tap that stays.
const always = math.MaxInt64

// newPlan puts a plan together.
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

// opening finds a tap, nil where the plan does not use it.
func (p *plan) opening(in *tap) *opening {
	if i, ok := p.places[in]; ok {
		return &p.openings[i]
	}
	return nil
}

// responsible tells whether it is for an opening to take a message.
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

// next gives the plan for other routes. Taps whose filters are wanted stay;
// fresh are those to be subscribed once the plan is in force, stale those that
// are wanted no more: at once where no other one takes what they have taken, and
// otherwise after until.
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

// without gives the plan without taps that are closed.
func (p *plan) without(closed []*tap) *plan {
	var openings []opening
	for _, o := range p.openings {
		if !slices.Contains(closed, o.tap) {
			openings = append(openings, opening{tap: o.tap, until: o.until})
		}
	}
	return newPlan(p.routes, openings)
}

// relieved tells whether a tap may go at once: no other one that stays is open
// for a topic of it.
func (p *plan) relieved(in *tap) bool {
	return !slices.ContainsFunc(p.openings, func(o opening) bool {
		return o.tap != in && o.until == always && overlap(o.filter, in.filter)
	})
}

// added gives what routes have that those of the plan do not have.
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
