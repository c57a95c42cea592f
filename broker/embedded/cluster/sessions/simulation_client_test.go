package sessions_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"signalbox/broker/embedded/enginetest"
	"signalbox/broker/mqtt/packet"
)

// shortExpiry is the session expiry of some clients, in whose sessions messages may be lost.
const shortExpiry = 20 * time.Second

// simulatedClient is a client with a persistent session. All clients publish to one topic, to which all
// are subscribed at QoS 2.
type simulatedClient struct {
	s      *simulation
	id     string
	hello  packet.Connect
	number int // of messages published

	// The fields below are guarded by simulation.mu.

	conn       *simulatedConn   // nil while it is away
	open       []*simulatedConn // also those that it has abandoned
	failed     bool             // it did not get CONNACK at last; a take-over may be under way or have failed
	connecting int              // the node, 0 for none
	outbox     []*outgoing
	nextID     uint16
	pending    map[uint16]pending  // of QoS 2, received and not released, by packet identifier
	got        map[string]int      // receptions by payload
	mayRepeat  map[string]bool     // begun in a session that the client has no more
	visited    map[int64]time.Time // when it was connected last with each session since it was told that it has none
	three      bool                // it has had three sessions since then
	told       map[int64]bool      // creation times of sessions of which it was told that they have begun
	clean      bool                // it has used Clean Start
	current    int64               // creation time of the session that it was connected with last
	subscribed map[int64]time.Time // since when its sessions are subscribed, by creation time, that it has not ended by Clean Start
	held       map[int]int64       // its sessions when they were looked at last, and since when they are there
	heldSince  time.Time
	begun      []time.Time // when it was told that it has no session
	parts      []*period   // when parts of its session were at several nodes
	unsure     time.Time   // what was published before may be repeated; see simulation.mayRepeat
	problems   []string
}

// simulatedConn is a connection of a client.
type simulatedConn struct {
	*enginetest.Client
	node   int
	random *rand.Rand // used by its reader
}

// pending is a message that the client has received and that was not released.
type pending struct {
	payload string
	session int64 // its creation time
}

// outgoing is a message that the client publishes.
type outgoing struct {
	message  *simulatedMessage
	id       uint16
	released bool // PUBREC was received
}

func newSimulatedClient(s *simulation, i int, random *rand.Rand) *simulatedClient {
	c := &simulatedClient{
		s: s, id: fmt.Sprint("c", i), pending: map[uint16]pending{}, got: map[string]int{}, mayRepeat: map[string]bool{}, subscribed: map[int64]time.Time{}, visited: map[int64]time.Time{}, told: map[int64]bool{},
	}
	c.hello = keeps(c.id)
	if random.IntN(5) == 0 {
		c.hello.SessionExpiry = uint32(shortExpiry / time.Second)
	}
	return c
}

// expires reports whether the client's session has a short expiry.
func (c *simulatedClient) expires() bool { return c.hello.SessionExpiry < 3600 }

// act has the client connect, publish and disconnect until the scenario is over.
func (c *simulatedClient) act(random *rand.Rand) {
	clean := random.IntN(3) == 0 // it uses Clean Start
	for c.s.acting(upTo(random, 3*time.Second)) {
		node := 1 + random.IntN(len(c.s.nodes))
		switch n := random.IntN(12); {
		case n < 4:
			c.connect(random, node, clean && random.IntN(4) == 0)
		case n < 10:
			c.publish(byte(1 + n%2))
		case n < 11:
			c.leave()
		default:
			c.disconnect()
		}
	}
}

// disconnect sends DISCONNECT.
func (c *simulatedClient) disconnect() {
	c.s.mu.Lock()
	conn := c.conn
	c.s.mu.Unlock()
	if conn != nil {
		conn.TrySend([]byte{packet.TypeDisconnect << 4, 0}) //nolint:errcheck // it may have ended
	}
}

// leave closes the client's connections, those included that it has abandoned.
func (c *simulatedClient) leave() {
	c.s.mu.Lock()
	open := c.open
	c.conn, c.open = nil, nil
	c.s.mu.Unlock()
	for _, conn := range open {
		conn.Close()
	}
}

// connect connects to a node. It reports whether the client was let in.
func (c *simulatedClient) connect(random *rand.Rand, number int, clean bool) bool {
	if random.IntN(2) == 0 { // else the broker ends the older connection, if it finds it
		c.leave()
	}
	s, conn := c.s, &simulatedConn{node: number, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
	h := c.hello
	h.CleanStart = clean
	s.mu.Lock()
	if s.stopping[number] {
		s.mu.Unlock()
		return false
	}
	n, began := s.at(number), time.Now()
	var err error
	if conn.Client, err = n.TryDial(); err != nil {
		s.mu.Unlock()
		return false
	}
	c.conn, c.connecting = nil, number
	s.attempts++
	if clean {
		s.noteCleanStart(c)
	}
	s.mu.Unlock()
	if random.IntN(3) == 0 {
		impatient := time.AfterFunc(upTo(random, 4*time.Second), func() { conn.Close() })
		defer impatient.Stop()
	}
	err = conn.TryConnect(h)
	s.log("%s at node %d: Clean Start %t, error %v, present %t", c.id, number, clean, err, conn.Present)
	if err != nil {
		conn.Close()
	}
	s.mu.Lock()
	c.connecting, c.failed = 0, err != nil
	c.noteHeld(s.holders(c))
	c.noteParts(c.held, began)
	if err != nil {
		s.mu.Unlock()
		return false
	}
	c.conn, c.open = conn, append(c.open, conn)
	c.clean = c.clean || clean
	if clean && conn.Present {
		c.problems = append(c.problems, "after Clean Start a session is present")
	}
	o, err := n.Ownership(c.id)
	other := conn.Present && o.CreatedAt != c.current // also if it did not wait for the CONNACK that told it so
	if err == nil && (other || !conn.Present && different(s.holders(c)) > 2) {
		c.unsure = time.Now()
	}
	if conn.Present && err == nil && !c.told[o.CreatedAt] && c.hasOlder(o.CreatedAt) {
		c.problems = append(c.problems, fmt.Sprintf("at node %d a session is present that began without its knowledge, while it has an older one", number))
	}
	c.current = o.CreatedAt
	if !conn.Present {
		c.told[c.current] = true
		clear(c.visited)
		c.three = false
		c.begun = append(c.begun, time.Now())
		for _, p := range c.pending { // also those of other sessions
			c.mayRepeat[p.payload] = true
		}
		clear(c.pending)
		c.outbox = nil
	}
	c.visited[c.current] = began
	_, subscribed := c.subscribed[o.CreatedAt]
	subscribed = subscribed && conn.Present && err == nil
	again, parts := slices.Clone(c.outbox), len(s.holders(c)) > 1 || other
	for _, p := range again {
		s.noteSent(p.message, number)
		p.message.toPart = p.message.toPart || parts
	}
	s.mu.Unlock()
	s.readers.Go(func() { c.read(conn) })
	for _, p := range again {
		c.send(conn, p, true)
	}
	if !subscribed {
		conn.TrySend(packet.AppendSubscribe(nil, packet.V5, &packet.Subscribe{PacketID: 65535, Filters: []packet.Filter{{Filter: "a", Options: 2}}})) //nolint:errcheck // it may have ended
	}
	return true
}

// hasOlder reports whether the client knows of another session, which exists and which it had last, and no node has
// forgotten meanwhile what it was told. s.mu must be held.
func (c *simulatedClient) hasOlder(than int64) bool {
	if c.clean || len(c.s.stops) > 0 || c.current == 0 || c.current >= than {
		return false
	}
	for _, created := range c.s.holders(c) {
		if created == c.current {
			return true
		}
	}
	return false
}

// connectAtLast connects when there are no faults any more, and waits until the client is subscribed.
func (c *simulatedClient) connectAtLast(random *rand.Rand) {
	c.s.t.Helper()
	exists, alternated := len(c.s.owners(c.id)) > 0, len(c.visited) > 1
	c.s.mu.Lock()
	known := !c.subscribed[c.current].IsZero()
	c.s.mu.Unlock()
	until(c.s.t, c.id+" is let in", func() bool { return c.connect(random, 1+random.IntN(len(c.s.nodes)), false) })
	if c.conn.Present != exists && !alternated && !c.expires() && (c.conn.Present || known) {
		c.s.t.Errorf("%s: a session exists: %t, and is present: %t", c.id, exists, c.conn.Present)
	}
	for created, at := range c.visited {
		if created != c.current && at.UnixMilli() > c.current && !c.three && !c.s.lossy.confirmations && !c.expires() {
			c.s.t.Errorf("%s is not told that it has no session, after it has alternated between %v", c.id, c.visited)
		}
	}
	until(c.s.t, c.id+" is subscribed", func() bool {
		o, err := c.s.at(c.conn.node).Ownership(c.id)
		c.s.mu.Lock()
		defer c.s.mu.Unlock()
		return err == nil && !c.subscribed[o.CreatedAt].IsZero()
	})
}

// publish publishes a message, if the client is connected.
func (c *simulatedClient) publish(qos byte) {
	s := c.s
	s.mu.Lock()
	conn := c.conn
	if conn == nil {
		s.mu.Unlock()
		return
	}
	c.number++
	c.nextID++
	p := &outgoing{message: s.newMessage(fmt.Sprint(c.id, "-", c.number, "-", qos), qos), id: c.nextID}
	s.noteSent(p.message, conn.node)
	c.outbox = append(c.outbox, p)
	s.log("%s publishes %s at node %d; sessions %v", c.id, p.message.payload, conn.node, p.message.before)
	s.mu.Unlock()
	c.send(conn, p, false)
}

// send sends a message, or its PUBREL.
func (c *simulatedClient) send(conn *simulatedConn, p *outgoing, again bool) {
	m := p.message
	b := packet.AppendPublish(nil, packet.V5, &packet.Outgoing{Topic: "a", QoS: m.qos, PacketID: p.id, Dup: again, Payload: []byte(m.payload)})
	if p.released {
		b = packet.AppendAck(nil, packet.V5, packet.TypePubrel, p.id, 0, "")
	}
	conn.TrySend(b) //nolint:errcheck // it may have ended
}

// read handles the packets of a connection until it ends.
func (c *simulatedClient) read(conn *simulatedConn) {
	for {
		p, err := conn.Next()
		if err != nil {
			break
		}
		if answer := c.handle(conn, p); answer != nil {
			if conn.TrySend(answer) != nil {
				break
			}
		}
	}
	conn.Close()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.conn == conn {
		c.conn = nil
	}
}

// handle handles a packet, and returns the response. What comes by a connection that the client has
// abandoned is lost.
func (c *simulatedClient) handle(conn *simulatedConn, p []byte) []byte {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.conn != conn {
		return nil
	}
	careless := time.Now().Before(s.ends) && conn.random.IntN(6) == 0 // the response is lost with the connection
	switch kind := p[0] >> 4; kind {
	case packet.TypePublish:
		m := conn.Parse(p)
		kind = packet.TypePuback
		if m.QoS == 2 {
			kind = packet.TypePubrec
		}
		c.receive(m)
		if careless {
			s.log("%s does not acknowledge it", c.id)
		}
		if careless {
			return nil
		}
		return packet.AppendAck(nil, packet.V5, kind, m.ID, 0, "")
	case packet.TypePubrel:
		delete(c.pending, enginetest.PacketID(p))
		if careless {
			return nil
		}
		return packet.AppendAck(nil, packet.V5, packet.TypePubcomp, enginetest.PacketID(p), 0, "")
	case packet.TypeSuback:
		if o, err := s.at(conn.node).Ownership(c.id); err == nil && o.Connected {
			if c.subscribed[o.CreatedAt].IsZero() {
				c.subscribed[o.CreatedAt] = time.Now()
			}
		}
	case packet.TypePuback, packet.TypePubrec, packet.TypePubcomp:
		return c.acknowledged(kind, p)
	}
	return nil
}

// receive records a message.
func (c *simulatedClient) receive(m enginetest.Message) {
	if m.QoS == 2 {
		before, there := c.pending[m.ID]
		known := there && before.session == c.current && len(c.parts) == 0 // parts of a session do not know what others have sent
		switch {
		case there && before.payload == m.Payload:
			if known && !m.Dup {
				c.problems = append(c.problems, fmt.Sprintf("message %s is sent again without DUP", m.Payload))
			}
			return
		case known:
			c.problems = append(c.problems, fmt.Sprintf("message %s has packet identifier %d of %s, which was not released", m.Payload, m.ID, before.payload))
		}
		c.pending[m.ID] = pending{m.Payload, c.current}
	}
	c.got[m.Payload]++
	c.s.log("%s gets %s, id %d, dup %t, at node %d", c.id, m.Payload, m.ID, m.Dup, c.conn.node)
}

// acknowledged records an acknowledgement, and returns PUBREL after PUBREC.
func (c *simulatedClient) acknowledged(kind byte, p []byte) []byte {
	i := slices.IndexFunc(c.outbox, func(o *outgoing) bool { return o.id == enginetest.PacketID(p) })
	if i < 0 {
		return nil
	}
	o := c.outbox[i]
	refused := len(p) > 4 && p[4] >= 0x80
	if kind != packet.TypePubcomp && !refused && !o.released {
		c.s.noteAcknowledged(o.message)
	}
	if kind != packet.TypePubrec || refused {
		c.outbox = slices.Delete(c.outbox, i, i+1)
		return nil
	}
	o.released = true
	return packet.AppendAck(nil, packet.V5, packet.TypePubrel, o.id, 0, "")
}
