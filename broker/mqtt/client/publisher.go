package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// publisher publishes, on a session of its own. What was sent and is not
// acknowledged when a connection is lost goes on on the next one [MQTT-4.4.0-1],
// so that a message of QoS 2 is published once.
type publisher struct {
	feed  *Feed
	turn  chan struct{} // holds one while somebody sends, so that calls do not mix
	freed chan struct{} // buffered by one: whoever sends is to look again
	tried atomic.Bool   // an attempt to connect has had an outcome

	mu     sync.Mutex // guards what follows, and batches; an outbox's comes after it
	conn   *conn      // nil for none
	cause  error      // why there is none; nil where none was tried
	fresh  bool       // the session of the connection before must not be gone on with
	flows  map[uint16]*flow
	order  []*flow // as they were sent; those that ended among them
	nextID uint16
	hurry  *time.Timer // ends the wait for the next connection after one was lost; nil where nobody waits
}

// flow is a message above QoS 0 on its way.
type flow struct {
	message  messaging.Message
	qos      byte
	id       uint16
	released bool // PUBREC has come: it is the broker's
	over     bool
	batch    *batch
	index    int // in the batch
}

func newPublisher(f *Feed) *publisher {
	return &publisher{feed: f, turn: make(chan struct{}, 1), freed: make(chan struct{}, 1), fresh: true, flows: map[uint16]*flow{}}
}

// batch is the messages of one call.
type batch struct {
	ends    []end  // of each message
	codes   []byte // why those that are declined are; nil where nobody asks
	waiting int    // messages under way, and one while more are sent
	err     error  // why one under way was given up
	over    chan struct{}
}

// end is what became of a message.
type end byte

const (
	pending end = iota
	published
	declined // by the broker
)

func (p *publisher) publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	if len(messages) == 0 {
		return 0, 0, nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	b := &batch{ends: make([]end, len(messages)), waiting: 1, over: make(chan struct{})}
	_, err = p.send(ctx, b, messages)
	p.sent(b)
	select {
	case <-b.over:
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.outcome(err)
}

// sent ends the turn of a batch.
func (p *publisher) sent(b *batch) {
	<-p.turn
	signal(p.freed) // which may have been meant for the next one
	p.mu.Lock()
	defer p.mu.Unlock()
	b.part()
}

// decline notes that the broker does not take a message. The caller holds the
// publisher's mu.
func (b *batch) decline(i int, code byte) {
	b.ends[i] = declined
	if b.codes != nil {
		b.codes[i] = code
	}
}

// part ends one of those that are waited for. The caller holds the publisher's
// mu.
func (b *batch) part() {
	if b.waiting--; b.waiting == 0 {
		close(b.over)
	}
}

// outcome counts from the first message to the first that is not done with. The
// caller holds the publisher's mu.
func (b *batch) outcome(err error) (done, refused int, _ error) {
	for _, e := range b.ends {
		if e == pending {
			break
		}
		done++
		if e == declined {
			refused++
		}
	}
	switch {
	case done == len(b.ends):
		return done, refused, nil
	case err == nil:
		err = b.err
	}
	return done, refused, err
}

// send sends messages, as fast as the broker takes them, and counts them.
func (p *publisher) send(ctx context.Context, b *batch, messages []messaging.Message) (n int, err error) {
	for n < len(messages) {
		room, sent, err := p.begin(b, n, messages[n])
		switch {
		case err != nil:
			return n, err
		case sent:
			n++
			continue
		}
		select {
		case <-p.freed:
		case <-room:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	return n, nil
}

// begin sends one message, if there is room for it. Otherwise there may be when
// the channel tells, or freed. A connection that was lost just now is waited for.
func (p *publisher) begin(b *batch, i int, m messaging.Message) (room <-chan struct{}, sent bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := p.conn; {
	case c == nil && p.hurry != nil:
		return nil, false, nil
	case c == nil:
		return nil, false, p.why()
	case c.out.full(), m.QoS > 0 && len(p.flows) >= c.allowed.window:
		return c.out.room, false, nil
	}
	p.dispatch(b, i, m)
	return nil, true, nil
}

// dispatch sends one message. The caller holds mu.
func (p *publisher) dispatch(b *batch, i int, m messaging.Message) {
	c := p.conn
	out, alive := p.outgoing(m, min(m.QoS, c.allowed.maxQoS))
	out.Retain = out.Retain && !c.allowed.forgets
	switch {
	case !alive:
		b.ends[i] = published
		return
	case c.allowed.maxPacket > 0 && packet.PublishSize(c.version, &out) > c.allowed.maxPacket:
		b.decline(i, packet.ReasonPacketTooLarge)
		return
	case out.QoS == 0:
		b.ends[i] = published
	default:
		out.PacketID = p.free()
		fl := &flow{message: m, qos: out.QoS, id: out.PacketID, batch: b, index: i}
		p.flows[fl.id], p.order = fl, append(p.order, fl)
		b.waiting++
	}
	c.publish(&out)
}

func (c *conn) publish(out *packet.Outgoing) {
	c.out.add(func(dst []byte) []byte { return packet.AppendPublish(dst, c.version, out) })
}

// outgoing makes a PUBLISH. A message that has expired is not alive.
func (p *publisher) outgoing(m messaging.Message, qos byte) (out packet.Outgoing, alive bool) {
	out = packet.Outgoing{Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: qos, Retain: m.Retain}
	if m.ExpiresAt == 0 {
		return out, true
	}
	left := m.ExpiresAt - p.feed.options.Now().UnixMilli()
	out.Expiry, out.HasExpiry = uint32(min((left+999)/1000, 1<<32-1)), true
	return out, left > 0
}

// free gives an identifier that no packet under way has. There is one: the window
// is smaller than their number. The caller holds mu.
func (p *publisher) free() uint16 {
	for p.nextID++; p.nextID == 0 || p.flows[p.nextID] != nil; p.nextID++ {
	}
	return p.nextID
}

// why says why there is no connection, nil if there is one. The caller holds mu.
func (p *publisher) why() error {
	switch {
	case p.conn != nil:
		return nil
	case p.cause != nil:
		return p.cause
	}
	return &broker.Error{Kind: broker.Unavailable, Op: "publish", Msg: "the connection to publish on is not made yet; try again", Err: ErrNotYet}
}

func (p *publisher) reached() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why()
}

// acknowledged takes a PUBACK, PUBREC or PUBCOMP.
func (p *publisher) acknowledged(first byte, body []byte, _ bool) error {
	id, code, err := decodeAck(body)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fl, refused := p.flows[id], code >= packet.ReasonUnspecified
	switch kind := first >> 4; {
	case kind == packet.TypePubrec && !refused:
		p.release(id)
	case fl == nil:
	case kind == packet.TypePubrec, kind == packet.TypePuback && fl.qos == 1:
		if refused {
			fl.batch.decline(fl.index, code)
		}
		p.finish(fl, outcomeOf(refused))
	case kind == packet.TypePubcomp && fl.released: // with whatever code
		p.finish(fl, published)
	}
	return nil
}

func outcomeOf(refused bool) end {
	if refused {
		return declined
	}
	return published
}

// release sends PUBREL. The caller holds mu.
func (p *publisher) release(id uint16) {
	if fl := p.flows[id]; fl != nil {
		fl.released = true
	}
	version := p.conn.version
	p.conn.out.add(func(dst []byte) []byte { return packet.AppendAck(dst, version, packet.TypePubrel, id, 0, "") })
}

// finish ends the way of a message; pending means that it was given up. The caller
// holds mu.
func (p *publisher) finish(fl *flow, e end) {
	delete(p.flows, fl.id)
	fl.over = true
	fl.batch.ends[fl.index] = e
	fl.batch.part()
	n := 0
	for ; n < len(p.order) && p.order[n].over; n++ {
		p.order[n] = nil
	}
	if p.order = p.order[n:]; len(p.order) == 0 {
		p.order = nil
	}
	signal(p.freed)
}
