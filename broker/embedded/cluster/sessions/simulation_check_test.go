package sessions_test

import (
	"maps"
	"slices"
	"time"
)

// simulatedMessage is a message that a client publishes.
type simulatedMessage struct {
	payload      string
	qos          byte
	at           map[int]bool // the nodes that it was sent to
	toPart       bool         // sent again to a node that had only a part of its publisher's session
	started      time.Time
	acknowledged time.Time                // zero before
	stored       time.Time                // when it was seen last in the backlog of a node that it was sent to, for another one
	before       map[string]map[int]int64 // holders of the sessions when it was sent first
	missed       map[string]bool          // the clients that it could not be sent to at some time until it was acknowledged
	late         map[string]bool          // the clients whose session moved while a node that it was sent to was cut off
	required     map[string]bool          // the clients that must get it
}

// path is when two nodes were connected by the mesh in both directions, as far as is known.
type path struct {
	from, to time.Time
	broken   bool // since to
}

// Bounds of what a node knows of another one.
const (
	observeInterval = 200 * time.Millisecond
	meshGrace       = 10 * time.Second
)

// observe records, until the end, which nodes are connected, and where sessions are.
func (s *simulation) observe(over chan struct{}) {
	tick := time.NewTicker(observeInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.observeOnce()
		case <-over:
			return
		}
	}
}

func (s *simulation) observeOnce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	linked := map[link]bool{}
	for _, n := range s.nodes {
		if !n.isDown() && s.asleep[n.number] == nil {
			s.storing[n.number] = false
			for _, f := range n.mesh.Figures() {
				linked[link{n.number, f.Node}] = f.Linked && f.RoutesKnown
				s.storing[n.number] = s.storing[n.number] || f.Stored > 0
			}
		}
	}
	for _, m := range s.messages {
		s.noteStored(m)
	}
	for l := range linked {
		if !linked[l] || !linked[l.back()] {
			continue
		}
		p := s.paths[l]
		if p == nil || p.broken || time.Since(p.to) > 2*observeInterval {
			p = &path{from: time.Now()}
			s.paths[l] = p
		}
		p.to = time.Now()
	}
	for _, c := range s.clients {
		h := s.holders(c)
		c.noteHeld(h)
		moving := c.connecting != 0 || !c.failed && slices.ContainsFunc(s.nodes, func(n *node) bool { return n.sessions.Figures().HandoffsInProgress > 0 })
		if !moving || len(h) == different(h) {
			c.noteParts(h, c.heldSince)
		}
	}
	for _, m := range s.messages {
		if m.acknowledged.IsZero() { // to its client, which may learn late of it
			s.noteMissed(m)
		}
	}
}

// noteHeld records at which nodes the client's sessions are.
func (c *simulatedClient) noteHeld(holders map[int]int64) {
	if !maps.Equal(holders, c.held) {
		c.held, c.heldSince = holders, time.Now()
	}
	c.three = c.three || len(holders) > 2
}

// noteParts records whether parts of the client's session are at several nodes, since some time. It lasts until
// the client has one session: what is left of the parts may be in doubt.
func (c *simulatedClient) noteParts(holders map[int]int64, since time.Time) {
	open := len(c.parts) > 0 && c.parts[len(c.parts)-1].to.IsZero()
	parts := len(holders) > different(holders) || open && len(holders) > 1
	switch {
	case parts && !open:
		c.parts = append(c.parts, &period{from: since})
	case !parts && open:
		c.parts[len(c.parts)-1].to = time.Now()
	}
}

// notePathBroken records that the connections between two nodes were closed.
func (s *simulation) notePathBroken(a, b int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range []link{{a, b}, {b, a}} {
		if p := s.paths[l]; p != nil {
			p.broken = true
		}
	}
}

// noteFault records a fault of nodes until the function that it returns is called.
func (s *simulation) noteFault(nodes ...int) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &period{from: time.Now()}
	for _, n := range nodes {
		s.faults[n] = append(s.faults[n], p)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.to = time.Now()
	}
}

// holders returns the creation times of a client's sessions, by node. s.mu must be held.
func (s *simulation) holders(c *simulatedClient) map[int]int64 {
	found := map[int]int64{}
	for _, n := range s.nodes {
		if asleep := s.asleep[n.number]; asleep != nil {
			if created, there := asleep[c.id]; there {
				found[n.number] = created
			}
		} else if o, err := n.Ownership(c.id); err == nil {
			found[n.number] = o.CreatedAt
		}
	}
	return found
}

// different returns the number of different sessions of a client.
func different(holders map[int]int64) int {
	found := map[int64]bool{}
	for _, created := range holders {
		found[created] = true
	}
	return len(found)
}

// newMessage records that a message is about to be published. s.mu must be held.
func (s *simulation) newMessage(payload string, qos byte) *simulatedMessage {
	m := &simulatedMessage{
		payload: payload, qos: qos, started: time.Now(),
		at: map[int]bool{}, before: map[string]map[int]int64{}, missed: map[string]bool{}, late: map[string]bool{}, required: map[string]bool{},
	}
	for _, c := range s.clients {
		m.before[c.id] = s.holders(c)
	}
	s.messages = append(s.messages, m)
	return m
}

// noteSent records that a message is sent to a node. s.mu must be held.
func (s *simulation) noteSent(m *simulatedMessage, node int) {
	m.at[node] = true
	s.noteMissed(m)
}

// noteMissed records to which clients the nodes that a message was sent to cannot send it now. s.mu
// must be held.
func (s *simulation) noteMissed(m *simulatedMessage) {
	for _, c := range s.clients {
		c.noteHeld(s.holders(c))
		for holder, created := range c.held {
			known := c.heldSince
			if at := c.subscribed[created]; at.After(known) {
				known = at
			}
			for from := range m.at {
				m.missed[c.id] = m.missed[c.id] || !s.connected(from, holder, known)
			}
			m.missed[c.id] = m.missed[c.id] || s.isEnding(c.held, holder)
		}
	}
}

// isEnding reports whether a session of several that a client has may have ended for another node: it gets no
// messages from the time at which its queue is fetched, though it may be there for longer, in doubt. s.mu must be held.
func (s *simulation) isEnding(held map[int]int64, holder int) bool {
	latest := slices.Max(slices.Collect(maps.Values(held)))
	if held[holder] == latest || s.asleep[holder] != nil {
		return false
	}
	f := s.at(holder).sessions.Figures()
	return f.HandoffsInProgress+f.InDoubt > 0
}

// noteAcknowledged records that a message was acknowledged, and which clients have to get it. s.mu must
// be held.
func (s *simulation) noteAcknowledged(m *simulatedMessage) {
	m.acknowledged = time.Now()
	s.noteMissed(m)
	for _, c := range s.clients {
		m.late[c.id] = s.isLate(m, c)
		m.required[c.id] = s.mustGet(m, c)
	}
	s.log("%s is acknowledged; required %v", m.payload, m.required)
}

// noteCleanStart records that a client wants nothing that was sent before. s.mu must be held.
func (s *simulation) noteCleanStart(c *simulatedClient) {
	clear(c.subscribed)
	for _, m := range s.messages {
		delete(m.required, c.id)
	}
}

// mustGet reports whether a client has to get a message that is acknowledged now. It has to if one of its
// subscribed sessions existed from when the message was sent first until now, except:
//
//   - the nodes that the message was sent to could not send it to the node of a session, or did not know
//     of it there, because they were not connected: the mesh waits 10 s only;
//   - at QoS 2, the client has had several sessions: what is sent to both is left out of the older one,
//     and the newer one may not be subscribed yet;
//   - a node that the message was sent to was cut off while the session moved: the barrier does not wait
//     for it;
//   - a take-over had failed: the session may be in doubt, and frozen;
//   - the session is older than another one, for which its node has begun to end it.
//
// Sessions with a short expiry may have expired at a node that the client could not reach.
func (s *simulation) mustGet(m *simulatedMessage, c *simulatedClient) bool {
	before, now := slices.Collect(maps.Values(m.before[c.id])), slices.Collect(maps.Values(s.holders(c)))
	persisted := slices.ContainsFunc(before, func(created int64) bool {
		since := c.subscribed[created]
		return !since.IsZero() && !since.After(m.started) && slices.Contains(now, created)
	})
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, now))))
	return persisted && !c.expires() && !m.missed[c.id] && !m.late[c.id] && !c.hasParts(m) && (m.qos == 1 || len(all) == 1)
}

// isLate reports whether a client's session has moved since a message was sent, and a node that it was sent to
// was cut off meanwhile.
func (s *simulation) isLate(m *simulatedMessage, c *simulatedClient) bool {
	return !maps.Equal(m.before[c.id], s.holders(c)) &&
		slices.ContainsFunc(slices.Collect(maps.Keys(m.at)), func(from int) bool { return s.faulty(from, m.started) })
}

// connected reports whether a node can send messages to another one, or will be able to in time, and
// knows of a session that is there, and subscribed, since some time.
func (s *simulation) connected(from, to int, since time.Time) bool {
	if from == to {
		return true
	}
	p := s.paths[link{from, to}]
	switch {
	case p == nil || p.to.Sub(p.from) < time.Second:
		return false
	case !p.broken && time.Since(p.to) <= 2*observeInterval:
		return true
	}
	return time.Since(p.to) < meshGrace-time.Second && since.Before(p.to.Add(-time.Second))
}

// faulty reports whether a node had a fault since some time.
func (s *simulation) faulty(node int, since time.Time) bool {
	return slices.ContainsFunc(s.faults[node], func(p *period) bool { return p.overlaps(since, time.Now()) })
}

// mayRepeat reports whether a client may get a message of QoS 2 again:
//
//   - it was sent in a session that the client has no more, or was under way when the client began
//     another session;
//   - a node stopped while it was under way, or while the session moved;
//   - a node that it was sent to was cut off while the session moved, or had stored it for the other node: the
//     barrier does not wait for it;
//   - parts of the client's session were at several nodes, or its publisher has sent it again to a node
//     that had only a part of the publisher's session, or another one;
//   - the client has returned to an older session, or begun a third one: they have got the same messages.
func (s *simulation) mayRepeat(m *simulatedMessage, c *simulatedClient) bool {
	return c.mayRepeat[m.payload] || m.late[c.id] || m.acknowledged.IsZero() && s.isLate(m, c) || slices.ContainsFunc(c.begun, m.underWay) || slices.ContainsFunc(s.stops, m.underWay) ||
		m.toPart || c.hasParts(m) ||
		!c.unsure.Before(m.started) || different(m.before[c.id]) > 2
}

// hasParts reports whether parts of a client's session were at several nodes while a message was under way.
func (c *simulatedClient) hasParts(m *simulatedMessage) bool {
	return slices.ContainsFunc(c.parts, func(p *period) bool { return p.overlaps(m.started, m.end()) })
}

// noteStored records whether a message may be in a backlog, and which sessions have moved meanwhile: their nodes
// get it, too, and do not know that the client has it.
func (s *simulation) noteStored(m *simulatedMessage) {
	if time.Since(m.end()) > 2*observeInterval {
		return // it was not stored, or arrived
	}
	for from := range m.at {
		if s.storing[from] {
			m.stored = time.Now()
		}
	}
	if m.stored.After(m.acknowledged) {
		for _, c := range s.clients {
			m.late[c.id] = m.late[c.id] || s.isLate(m, c)
		}
	}
}

// end returns when a message was acknowledged and had arrived at nodes that had been away, or now.
func (m *simulatedMessage) end() time.Time {
	switch {
	case m.acknowledged.IsZero():
		return time.Now()
	case m.stored.After(m.acknowledged):
		return m.stored
	}
	return m.acknowledged
}

// underWay reports whether a message was sent and had not ended at some time.
func (m *simulatedMessage) underWay(at time.Time) bool {
	return !at.Before(m.started) && !at.After(m.end())
}

// check checks the outcome.
func (s *simulation) check() {
	t := s.t
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := 0
	for _, c := range s.clients {
		for _, problem := range c.problems {
			t.Errorf("%s: %s", c.id, problem)
		}
		for _, m := range s.messages {
			n, last := c.got[m.payload], m.started.After(s.ends)
			switch {
			case n == 0 && last:
				t.Errorf("%s does not get message %s, which was sent at the end", c.id, m.payload)
			case n == 0 && m.required[c.id]:
				missing++
				t.Logf("%s does not get message %s, which was sent to %v %v after the start, with its session at %v", c.id, m.payload, m.at, m.started.Sub(s.ends)+simulatedTime, m.before[c.id])
			case n > 1 && (last || m.qos == 2 && !s.mayRepeat(m, c)):
				t.Errorf("%s gets message %s %d times, which was sent to %v %v after the start", c.id, m.payload, n, m.at, m.started.Sub(s.ends)+simulatedTime)
			}
		}
	}
	if discarded := int(s.discarded.Load()); missing > discarded { // of which sessions is not known
		t.Errorf("%d messages are missing, and %d were counted as discarded", missing, discarded)
	}
	s.checkFigures()
}

// checkFigures compares the nodes' figures with each other.
func (s *simulation) checkFigures() {
	t, clients := s.t, int64(len(s.clients))
	var all, subscribed, connected, claims int64
	for _, n := range s.nodes {
		f, counts := n.sessions.Figures(), n.Counts()
		if f.HandoffsInProgress != 0 || f.InDoubt != 0 || f.Unreachable != 0 || counts.QueuedBytes != 0 {
			t.Errorf("node %d: %+v, %d bytes are queued", n.number, f, counts.QueuedBytes)
		}
		claims += f.Claims
		all, subscribed, connected = all+counts.Sessions, subscribed+counts.Subscriptions, connected+counts.Connected
		for _, m := range s.nodes {
			for _, l := range m.mesh.Figures() {
				if want := int(min(1, counts.Sessions)); l.Node == n.number && l.Routes != want {
					t.Errorf("node %d knows %d filters of node %d, want %d", m.number, l.Routes, n.number, want)
				}
			}
		}
	}
	if all != clients || subscribed != clients || connected != clients {
		t.Errorf("%d clients have %d sessions with %d subscriptions, and %d are connected", clients, all, subscribed, connected)
	}
	if len(s.stops) == 0 && claims != s.attempts {
		t.Errorf("the clients connected %d times, and %d claims were counted", s.attempts, claims)
	}
}
