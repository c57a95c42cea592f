package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What two brokers do with the same script may differ where the standard leaves
// a choice. This is not compared:
//
//   - packet identifiers and DUP. Each player checks them by itself, see player.
//   - how many copies of one message a client with overlapping subscriptions
//     gets: copies are taken together, with the best QoS and the subscription
//     identifiers of all. A message that has waited may lack what comes of
//     subscriptions at QoS 0, at which nothing waits: identifiers and RETAIN.
//   - RETAIN where the copies do not agree among themselves.
//   - the order of messages on different topics, or published at different QoS,
//     and the order in which SUBSCRIBE brings the retained messages.
//   - whether SUBSCRIBE brings the retained messages that the client published
//     itself, for a filter with No Local.
//   - which member of a group gets a message of a shared subscription: counted is
//     how many copies all of them get.
//   - empty messages that a client gets at once on one topic: they look alike.
//   - how much of an expiry is left.
//   - when a client hears what comes while it acknowledges nothing, and what comes
//     to it at QoS 0 then.
type comparison struct {
	step      step
	published map[string]origin // by payload
	faults    []string
}

// origin is where a message came from.
type origin struct {
	client int
	qos    byte
}

// compare holds what a step brought on our broker against what it brought on the
// other.
func compare(s step, published map[string]origin, got, want outcome) []string {
	c := &comparison{step: s, published: published}
	for i := range comers {
		c.players(fmt.Sprintf("client %d", i), c.foreign(i, got[i].heard), c.foreign(i, want[i].heard))
	}
	for i := range cast {
		if !slices.Equal(got[i].answers, want[i].answers) {
			c.fault("client %d: answers %q, want %q", i, got[i].answers, want[i].answers)
		}
	}
	ours, theirs := map[string]int{}, map[string]int{}
	for i := comers; i < watcher; i++ {
		tally(ours, got[i].heard)
		tally(theirs, want[i].heard)
	}
	if !maps.Equal(ours, theirs) {
		c.fault("shared subscriptions: got %v, want %v", ours, theirs)
	}
	c.players("the watcher", got[watcher].heard, want[watcher].heard)
	return c.faults
}

// foreign leaves out what a client published itself where it may get that
// because it is retained: on SUBSCRIBE, or afterwards if it was mute then.
func (c *comparison) foreign(client int, list []delivery) []delivery {
	if c.step.kind != stepSubscribe && c.step.kind != stepConnect {
		return list
	}
	return slices.DeleteFunc(list, func(d delivery) bool { return c.published[d.payload].client == client })
}

func tally(count map[string]int, heard []delivery) {
	for _, d := range heard {
		if !d.retain { // Mosquitto 2.0.11 sends retained messages to a new shared subscription
			count[d.topic+" "+d.payload]++
		}
	}
}

func (c *comparison) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// players compares what one client heard.
func (c *comparison) players(who string, got, want []delivery) {
	ours, theirs := together(got), together(want)
	for key, w := range theirs.by {
		g, ok := ours.by[key]
		if !ok {
			c.fault("%s did not get %v", who, *w)
			continue
		}
		c.message(who, g, w)
	}
	for key, g := range ours.by {
		if _, ok := theirs.by[key]; !ok {
			c.fault("%s got %v, which it should not", who, *g)
		}
	}
	c.order(who, ours, theirs)
}

// heap is what a client heard, copies taken together, in the order in which the
// first of each came that has the best QoS.
type heap struct {
	order []string
	by    map[string]*heard
}

// heard is a message with all of its copies.
type heard struct {
	delivery
	copies int
	mixed  bool // some copies have RETAIN and others do not
}

func together(list []delivery) heap {
	h := heap{by: map[string]*heard{}}
	for _, d := range list {
		key := d.topic + " " + d.payload
		m, ok := h.by[key]
		if !ok {
			m = &heard{delivery: d}
			m.ids = nil
			h.by[key] = m
		}
		if !ok || d.qos > m.qos {
			h.order = append(slices.DeleteFunc(h.order, func(k string) bool { return k == key }), key)
		}
		m.copies++
		m.mixed = m.mixed || m.retain != d.retain
		m.qos = max(m.qos, d.qos)
		m.ids = append(m.ids, d.ids...)
	}
	for _, m := range h.by {
		slices.Sort(m.ids)
		m.ids = slices.Compact(m.ids)
	}
	return h
}

func (c *comparison) message(who string, got, want *heard) {
	if got.payload == "" {
		return
	}
	same := got.qos == want.qos && got.props == want.props &&
		(got.retain == want.retain || got.mixed || want.mixed || c.step.kind == stepConnect) && c.sameIDs(got.ids, want.ids)
	if !same {
		c.fault("%s got %v, want %v", who, *got, *want)
	}
}

func (c *comparison) sameIDs(got, want []int) bool {
	if c.step.kind != stepConnect {
		return slices.Equal(got, want)
	}
	return within(got, want) || within(want, got)
}

func within(part, whole []int) bool {
	return !slices.ContainsFunc(part, func(id int) bool { return !slices.Contains(whole, id) })
}

// order compares the order of messages where there is one to keep.
func (c *comparison) order(who string, got, want heap) {
	if c.step.kind == stepSubscribe {
		return
	}
	ours, theirs := c.lanes(got), c.lanes(want)
	for lane, g := range ours {
		if w := theirs[lane]; !slices.Equal(g, w) && len(g) == len(w) {
			c.fault("%s: order on %s: got %q, want %q", who, lane, g, w)
		}
	}
}

// lanes puts messages whose order counts into one list each.
func (c *comparison) lanes(h heap) map[string][]string {
	lanes := map[string][]string{}
	for _, key := range h.order {
		topic, payload, _ := strings.Cut(key, " ")
		if payload == "" {
			continue
		}
		lane := fmt.Sprintf("%s at QoS %d", topic, c.published[payload].qos)
		lanes[lane] = append(lanes[lane], payload)
	}
	return lanes
}
