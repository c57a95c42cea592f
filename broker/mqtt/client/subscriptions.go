package client

import (
	"context"
	"maps"
	"slices"

	"signalbox/broker/mqtt/packet"
)

// subscription is a subscription of a subscriber's session. Filter, id and subscriber never
// change; the rest is guarded by client.mu.
type subscription struct {
	subscriber *subscriber
	filter     string
	id         uint32 // subscription identifier, 0 for none
	wanted     bool
	state      state
}

// state is the state of a subscription.
type state int

const (
	stateAbsent        state = iota
	stateSubscribing         // SUBSCRIBE was sent
	stateGranted             // it stands
	stateRefused             // by the broker
	stateUnsubscribing       // UNSUBSCRIBE was sent
)

// plan assigns the filters to subscribers and applies that. It is called again for changes
// made meanwhile.
func (c *Client) plan(ctx context.Context) {
	c.mu.Lock()
	version, m := c.wantedVersion, c.mode
	filters := slices.DeleteFunc(slices.Collect(maps.Keys(c.routes)), func(filter string) bool { return c.refused[filter] })
	c.mu.Unlock()
	var assignments map[string]assignment
	if m != modeUnknown {
		assignments = assignFilters(filters, m == modeIdentified)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wantedVersion != version {
		return
	}
	c.plannedVersion = version
	if m != modeUnknown {
		c.applyPlan(ctx, assignments)
	} else if len(filters) > 0 {
		c.subscribers[0].start(ctx) // to find out the mode
	}
	c.notifyChanged()
}

// applyPlan applies an assignment. Refused filters cover nothing, and are retried by the first
// subscriber. c.mu must be held.
func (c *Client) applyPlan(ctx context.Context, assignments map[string]assignment) {
	for filter := range c.refused {
		if c.routes[filter] != nil {
			assignments[filter] = assignment{filter, 0}
		}
	}
	c.markWanted(assignments)
	needed := c.assignSources(assignments)
	for _, l := range c.subscribers {
		l.update(ctx, needed)
	}
}

// markWanted marks the subscriptions that are wanted. c.mu must be held.
func (c *Client) markWanted(assignments map[string]assignment) {
	for _, l := range c.subscribers {
		for _, s := range l.subs {
			s.wanted = false
		}
	}
	for _, p := range assignments {
		c.subscribers[p.subscriber].subscription(p.filter).wanted = true
	}
	n := len(c.routes) - len(assignments)
	if n > c.unassigned {
		c.log.Warn("too many subscriptions overlap: some receive no messages", "subscriptions", n, "connections", maxSubscribers)
	}
	c.unassigned = n
}

// assignSources sets the sources of each route: at once if it has no granted one, otherwise
// when the new one is granted. It returns the current sources. c.mu must be held.
func (c *Client) assignSources(assignments map[string]assignment) (needed map[*subscription]bool) {
	needed = map[*subscription]bool{}
	for filter, r := range c.routes {
		p, ok := assignments[filter]
		if !ok || c.refused[filter] { // messages of a covering filter are not meant for it

			r.sources.Store(nil)
			continue
		}
		target, src := c.subscribers[p.subscriber].subscription(p.filter), r.sources.Load()
		switch {
		case src == nil || src.current.state != stateGranted && !src.current.wanted:
			r.sources.Store(&sources{current: target})
		case src.current == target || src.current.wanted && src.current.state != stateRefused:
		case target.state == stateGranted:
			r.sources.Store(&sources{current: target, previous: src.current})
		}
		needed[r.sources.Load().current] = true
	}
	return needed
}

// subscription returns the subscription to a filter, created if necessary. client.mu must be
// held.
func (l *subscriber) subscription(filter string) *subscription {
	s := l.subs[filter]
	if s == nil {
		s = &subscription{subscriber: l, filter: filter}
		if l.client.mode == modeIdentified {
			s.id = identifier(filter)
		}
		l.subs[filter] = s
	}
	return s
}

// update subscribes and unsubscribes as wanted, and starts the subscriber if there is
// something to do. client.mu must be held.
func (l *subscriber) update(ctx context.Context, needed map[*subscription]bool) {
	var subscribe, unsubscribe []*subscription
	for _, filter := range slices.Sorted(maps.Keys(l.subs)) {
		s := l.subs[filter]
		switch {
		case s.wanted && s.state == stateAbsent:
			subscribe = append(subscribe, s)
		case s.wanted || needed[s]:
		case s.state == stateGranted:
			unsubscribe = append(unsubscribe, s)
		case s.state == stateAbsent || s.state == stateRefused:
			delete(l.subs, filter)
		}
	}
	if len(l.subs) > 0 {
		l.start(ctx)
	}
	if l.conn == nil {
		return
	}
	for part := range slices.Chunk(subscribe, maxFiltersPerPacket) {
		l.subscribe(part)
	}
	for part := range slices.Chunk(unsubscribe, maxFiltersPerPacket) {
		l.unsubscribe(filters(part), part)
	}
}

// endIdle ends sessions without subscriptions.
func (c *Client) endIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.subscribers {
		if l.conn != nil && l.idle() {
			l.end()
		}
	}
}

// maxFiltersPerPacket bounds the filters of a SUBSCRIBE or UNSUBSCRIBE, so that even the
// longest topics fit.
const maxFiltersPerPacket = 200

func filters(list []*subscription) (names []string) {
	for _, s := range list {
		names = append(names, s.filter)
	}
	return names
}

// Subscription options of MQTT 5 [MQTT 3.8.3.1].
const (
	retainAsPublished = 1 << 3
	sendRetainedIfNew = 1 << 4
	noRetained        = 2 << 4
)

// subscriptionOptions returns the options: QoS 2, RETAIN as published, and retained messages
// if wanted. In MQTT 3.1.1 these are sent after each SUBSCRIBE.
func (l *subscriber) subscriptionOptions() byte {
	switch {
	case l.conn.version != packet.V5:
		return 2
	case l.client.options.Retained:
		return 2 | retainAsPublished | sendRetainedIfNew
	}
	return 2 | retainAsPublished | noRetained
}

// subscribe sends SUBSCRIBE. client.mu must be held.
func (l *subscriber) subscribe(list []*subscription) {
	c, options := l.conn, l.subscriptionOptions()
	for _, group := range groupByIdentifier(list) {
		p := &packet.Subscribe{PacketID: l.reservePacketID(group), ID: group[0].id}
		for _, s := range group {
			s.state = stateSubscribing
			p.Filters = append(p.Filters, packet.Filter{Filter: s.filter, Options: options})
		}
		c.out.add(func(dst []byte) []byte { return packet.AppendSubscribe(dst, c.version, p) })
	}
}

// groupByIdentifier splits subscriptions by packet, which has one identifier [MQTT 3.8.2.1.2].
func groupByIdentifier(list []*subscription) [][]*subscription {
	if list[0].id == 0 {
		return [][]*subscription{list}
	}
	return slices.Collect(slices.Chunk(list, 1))
}

// unsubscribe sends UNSUBSCRIBE; list contains those of the filters that are known. client.mu
// must be held.
func (l *subscriber) unsubscribe(filters []string, list []*subscription) {
	c := l.conn
	for _, s := range list {
		s.state = stateUnsubscribing
	}
	p := &packet.Unsubscribe{PacketID: l.reservePacketID(list), Filters: filters}
	c.out.add(func(dst []byte) []byte { return packet.AppendUnsubscribe(dst, c.version, p) })
}

// reservePacketID records what a packet requests until it is acknowledged. client.mu must be
// held.
func (l *subscriber) reservePacketID(list []*subscription) (id uint16) {
	for l.nextID++; l.nextID == 0 || l.awaitingAck[l.nextID] != nil; l.nextID++ {
	}
	if list == nil {
		list = []*subscription{}
	}
	l.awaitingAck[l.nextID] = list
	return l.nextID
}

// handleAck handles a SUBACK or UNSUBACK.
func (l *subscriber) handleAck(kind byte, body []byte) error {
	id, codes, err := decodeCodes(body, l.conn.version)
	if err != nil {
		return err
	}
	client := l.client
	client.mu.Lock()
	defer client.mu.Unlock()
	list := l.awaitingAck[id]
	delete(l.awaitingAck, id)
	if kind == packet.TypeSuback && len(codes) != len(list) {
		return errMalformed
	}
	for i, s := range list {
		if kind == packet.TypeUnsuback {
			client.removed(s)
		} else {
			client.granted(s, codes[i])
		}
	}
	client.requestPlan()
	return nil
}

// granted records the result of a SUBSCRIBE. c.mu must be held.
func (c *Client) granted(s *subscription, code byte) {
	if code < packet.ReasonUnspecified {
		s.state = stateGranted
		if c.refused[s.filter] {
			delete(c.refused, s.filter)
			c.log.Info("refused subscription is granted now", "filter", s.filter)
		}
		return
	}
	s.state = stateRefused
	if !c.refused[s.filter] && c.routes[s.filter] != nil {
		c.refused[s.filter] = true
		c.log.Warn("subscription refused: no messages are received", "filter", s.filter, "code", code)
	}
}

// removed records that a subscription does not exist any more. c.mu must be held.
func (c *Client) removed(s *subscription) {
	s.state = stateAbsent
	for _, r := range c.routes {
		if src := r.sources.Load(); src != nil && src.previous == s {
			r.sources.Store(&sources{current: src.current})
		}
	}
}

// retryRefused requests refused subscriptions again.
func (c *Client) retryRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.subscribers {
		for _, s := range l.subs {
			if s.state == stateRefused {
				s.state = stateAbsent
				c.requestPlan()
			}
		}
	}
}
