package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The results of a script may differ between two brokers where the standard leaves a
// choice. This is not compared:
//
//   - packet identifiers and DUP. Each client checks them by itself, see scriptedClient.
//   - how many copies of one message a client with overlapping subscriptions
//     receives: copies are merged, with the best QoS and the subscription
//     identifiers of all. A queued message may lack what comes of
//     subscriptions at QoS 0, which does not queue: identifiers and RETAIN.
//   - RETAIN if the copies do not agree among themselves.
//   - the order of messages on different topics, or published at different QoS,
//     and the order of the retained messages after SUBSCRIBE.
//   - whether SUBSCRIBE delivers the retained messages that the client published
//     itself, for a filter with No Local.
//   - which member of a group receives a message of a shared subscription: only
//     the copies of all members together are counted.
//   - empty messages that a client receives at once on one topic: they are equal.
//   - the rest of an expiry interval.
//   - when a client receives what arrives while it acknowledges nothing, and what
//     arrives at QoS 0 then.
type comparison struct {
	step      step
	published map[string]origin // by payload
	faults    []string
}

// origin is the publisher of a message and the QoS of its PUBLISH.
type origin struct {
	client int
	qos    byte
}

// compare compares the result of a step on our broker with that on the other.
func compare(s step, published map[string]origin, got, want outcome) []string {
	c := &comparison{step: s, published: published}
	for i := range transients {
		c.compareClient(fmt.Sprintf("client %d", i), c.withoutOwn(i, got[i].heard), c.withoutOwn(i, want[i].heard))
	}
	for i := range totalClients {
		if !slices.Equal(got[i].answers, want[i].answers) {
			c.fault("client %d: answers %q, want %q", i, got[i].answers, want[i].answers)
		}
	}
	ours, theirs := map[string]int{}, map[string]int{}
	for i := transients; i < watcher; i++ {
		tally(ours, got[i].heard)
		tally(theirs, want[i].heard)
	}
	if !maps.Equal(ours, theirs) {
		c.fault("shared subscriptions: got %v, want %v", ours, theirs)
	}
	c.compareClient("the watcher", got[watcher].heard, want[watcher].heard)
	return c.faults
}

// withoutOwn omits what a client published itself if it may receive that because it is
// retained: on SUBSCRIBE, or afterwards if it was mute then.
func (c *comparison) withoutOwn(client int, list []delivery) []delivery {
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

// compareClient compares what one client received.
func (c *comparison) compareClient(who string, got, want []delivery) {
	ours, theirs := merge(got), merge(want)
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

// mergedMessages is what a client received, copies merged, in the order of the first copy with the
// best QoS.
type mergedMessages struct {
	order []string
	by    map[string]*mergedMessage
}

// mergedMessage is a message with all of its copies.
type mergedMessage struct {
	delivery
	copies int
	mixed  bool // some copies have RETAIN and others do not
}

func merge(list []delivery) mergedMessages {
	h := mergedMessages{by: map[string]*mergedMessage{}}
	for _, d := range list {
		key := d.topic + " " + d.payload
		m, ok := h.by[key]
		if !ok {
			m = &mergedMessage{delivery: d}
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

func (c *comparison) message(who string, got, want *mergedMessage) {
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

// order compares the order of messages that must be ordered.
func (c *comparison) order(who string, got, want mergedMessages) {
	if c.step.kind == stepSubscribe {
		return
	}
	ours, theirs := c.ordered(got), c.ordered(want)
	for lane, g := range ours {
		if w := theirs[lane]; !slices.Equal(g, w) && len(g) == len(w) {
			c.fault("%s: order on %s: got %q, want %q", who, lane, g, w)
		}
	}
}

// ordered groups messages whose relative order matters.
func (c *comparison) ordered(h mergedMessages) map[string][]string {
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
