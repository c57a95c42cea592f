package client

import (
	"context"
	"maps"
	"slices"

	"signalbox/broker/mqtt/packet"
)

// sub is a subscription of a lane's session. Filter, id and lane never change;
// the rest is guarded by the feed.
type sub struct {
	lane   *lane
	filter string
	id     uint32 // its subscription identifier, 0 for none
	wanted bool
	state  state
}

// state is how far a subscription is.
type state int

const (
	absent  state = iota
	asked         // SUBSCRIBE is under way
	granted       // it stands
	refused       // the broker does not grant it
	leaving       // UNSUBSCRIBE is under way
)

// plan decides what each lane subscribes to, and has it done. What changes while
// it decides has it called again.
func (f *Feed) plan(ctx context.Context) {
	f.mu.Lock()
	version, m := f.version, f.mode
	filters := slices.DeleteFunc(slices.Collect(maps.Keys(f.routes)), func(filter string) bool { return f.refused[filter] })
	f.mu.Unlock()
	var places map[string]place
	if m != unknown {
		places = arrange(filters, m == identified)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.version != version {
		return
	}
	f.planned = version
	if m != unknown {
		f.carryOut(ctx, places)
	} else if len(filters) > 0 {
		f.lane[0].start(ctx) // it finds out
	}
	f.announce()
}

// carryOut has an arrangement put into effect. What the broker refuses is in
// nobody's way, and is asked for on the first lane now and then. The caller holds
// mu.
func (f *Feed) carryOut(ctx context.Context, places map[string]place) {
	for filter := range f.refused {
		if f.routes[filter] != nil {
			places[filter] = place{filter, 0}
		}
	}
	f.place(places)
	needed := f.move(places)
	for _, l := range f.lane {
		l.work(ctx, needed)
	}
}

// place notes which subscriptions are wanted. The caller holds mu.
func (f *Feed) place(places map[string]place) {
	for _, l := range f.lane {
		for _, s := range l.subs {
			s.wanted = false
		}
	}
	for _, p := range places {
		f.lane[p.lane].sub(p.root).wanted = true
	}
	n := len(f.routes) - len(places)
	if n > f.leftOut {
		f.log.Warn("too many subscriptions overlap: some get no messages", "subscriptions", n, "connections", maxLanes)
	}
	f.leftOut = n
}

// move leads each route to its subscription: at once where it has none that
// stands, otherwise when the new one does. It gives those that routes come from.
// The caller holds mu.
func (f *Feed) move(places map[string]place) (needed map[*sub]bool) {
	needed = map[*sub]bool{}
	for filter, r := range f.routes {
		p, ok := places[filter]
		if !ok || f.refused[filter] { // what others have subscribed to is not meant for it

			r.from.Store(nil)
			continue
		}
		target, from := f.lane[p.lane].sub(p.root), r.from.Load()
		switch {
		case from == nil || from.now.state != granted && !from.now.wanted:
			r.from.Store(&sources{now: target})
		case from.now == target || from.now.wanted && from.now.state != refused:
		case target.state == granted:
			r.from.Store(&sources{now: target, before: from.now})
		}
		needed[r.from.Load().now] = true
	}
	return needed
}

// sub gives a lane's subscription to a filter, made if need be. The caller holds
// mu.
func (l *lane) sub(filter string) *sub {
	s := l.subs[filter]
	if s == nil {
		s = &sub{lane: l, filter: filter}
		if l.feed.mode == identified {
			s.id = identifier(filter)
		}
		l.subs[filter] = s
	}
	return s
}

// work subscribes and unsubscribes as it is wanted, and starts the lane if there
// is anything to do. The caller holds mu.
func (l *lane) work(ctx context.Context, needed map[*sub]bool) {
	var ask, leave []*sub
	for _, filter := range slices.Sorted(maps.Keys(l.subs)) {
		s := l.subs[filter]
		switch {
		case s.wanted && s.state == absent:
			ask = append(ask, s)
		case s.wanted || needed[s]:
		case s.state == granted:
			leave = append(leave, s)
		case s.state == absent || s.state == refused:
			delete(l.subs, filter)
		}
	}
	if len(l.subs) > 0 {
		l.start(ctx)
	}
	if l.conn == nil {
		return
	}
	for part := range slices.Chunk(ask, perPacket) {
		l.subscribe(part)
	}
	for part := range slices.Chunk(leave, perPacket) {
		l.unsubscribe(filters(part), part)
	}
}

// endIdle ends sessions that nothing is subscribed in.
func (f *Feed) endIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lane {
		if l.conn != nil && l.idle() {
			l.end()
		}
	}
}

// perPacket is how many filters one SUBSCRIBE or UNSUBSCRIBE has at most: few
// enough for one that is as long as topics may be.
const perPacket = 200

func filters(list []*sub) (names []string) {
	for _, s := range list {
		names = append(names, s.filter)
	}
	return names
}

// What a SUBSCRIBE says of RETAIN in MQTT 5 [MQTT 3.8.3.1].
const (
	asPublished     = 1 << 3
	retainedIfNew   = 1 << 4
	withoutRetained = 2 << 4
)

// wishes are the options of subscriptions: QoS 2, RETAIN as published, and
// retained messages as they are wanted. Before MQTT 5 those come with each
// SUBSCRIBE.
func (l *lane) wishes() byte {
	switch {
	case l.conn.version != packet.V5:
		return 2
	case l.feed.options.Retained:
		return 2 | asPublished | retainedIfNew
	}
	return 2 | asPublished | withoutRetained
}

// subscribe sends a SUBSCRIBE. The caller holds mu.
func (l *lane) subscribe(list []*sub) {
	c, options := l.conn, l.wishes()
	for _, group := range sameID(list) {
		p := &packet.Subscribe{PacketID: l.ask(group), ID: group[0].id}
		for _, s := range group {
			s.state = asked
			p.Filters = append(p.Filters, packet.Filter{Filter: s.filter, Options: options})
		}
		c.out.add(func(dst []byte) []byte { return packet.AppendSubscribe(dst, c.version, p) })
	}
}

// sameID cuts a list into those that can be asked for in one packet, which has
// one identifier [MQTT 3.8.2.1.2].
func sameID(list []*sub) [][]*sub {
	if list[0].id == 0 {
		return [][]*sub{list}
	}
	return slices.Collect(slices.Chunk(list, 1))
}

// unsubscribe sends an UNSUBSCRIBE; list holds those of the filters that are
// known here. The caller holds mu.
func (l *lane) unsubscribe(filters []string, list []*sub) {
	c := l.conn
	for _, s := range list {
		s.state = leaving
	}
	p := &packet.Unsubscribe{PacketID: l.ask(list), Filters: filters}
	c.out.add(func(dst []byte) []byte { return packet.AppendUnsubscribe(dst, c.version, p) })
}

// ask remembers what a packet is about until it is answered. The caller holds mu.
func (l *lane) ask(list []*sub) (id uint16) {
	for l.nextID++; l.nextID == 0 || l.asked[l.nextID] != nil; l.nextID++ {
	}
	if list == nil {
		list = []*sub{}
	}
	l.asked[l.nextID] = list
	return l.nextID
}

// answered takes a SUBACK or UNSUBACK.
func (l *lane) answered(kind byte, body []byte) error {
	id, codes, err := decodeCodes(body, l.conn.version)
	if err != nil {
		return err
	}
	f := l.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	list := l.asked[id]
	delete(l.asked, id)
	if kind == packet.TypeSuback && len(codes) != len(list) {
		return errMalformed
	}
	for i, s := range list {
		if kind == packet.TypeUnsuback {
			f.gone(s)
		} else {
			f.answer(s, codes[i])
		}
	}
	f.touch()
	return nil
}

// answer notes what became of a subscription that was asked for. The caller holds
// mu.
func (f *Feed) answer(s *sub, code byte) {
	if code < packet.ReasonUnspecified {
		s.state = granted
		if f.refused[s.filter] {
			delete(f.refused, s.filter)
			f.log.Info("subscription granted after all", "filter", s.filter)
		}
		return
	}
	s.state = refused
	if !f.refused[s.filter] && f.routes[s.filter] != nil {
		f.refused[s.filter] = true
		f.log.Warn("subscription refused: no messages come", "filter", s.filter, "code", code)
	}
}

// gone notes that a subscription is no more. The caller holds mu.
func (f *Feed) gone(s *sub) {
	s.state = absent
	for _, r := range f.routes {
		if from := r.from.Load(); from != nil && from.before == s {
			r.from.Store(&sources{now: from.now})
		}
	}
}

// forgive has subscriptions that were refused asked for once more.
func (f *Feed) forgive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.lane {
		for _, s := range l.subs {
			if s.state == refused {
				s.state = absent
				f.touch()
			}
		}
	}
}
