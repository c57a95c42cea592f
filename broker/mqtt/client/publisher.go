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

// publisher publishes on a session of its own. Unacknowledged messages of a lost connection
// are sent again on the next one [MQTT-4.4.0-1], so that a QoS 2 message is published once.
type publisher struct {
	client    *Client
	sending   chan struct{} // semaphore: calls do not interleave
	ready     chan struct{} // buffered by one: the sender may continue
	attempted atomic.Bool   // an attempt to connect has ended

	mu             sync.Mutex      // guards what follows, and batches; taken before that of a send queue
	conn           *conn           // nil for none
	cause          error           // why there is none; nil before the first attempt
	serving        context.Context // of the latest connection, or attempt
	stopWatching   func() bool     // ends what waits for the end of serving
	discardSession bool            // the previous session must be discarded
	inFlight       map[uint16]*inFlightMessage
	order          []*inFlightMessage // as sent, including completed ones
	nextID         uint16
	resumeTimer    *time.Timer // limits the wait for the next connection; nil while there is none
}

// inFlightMessage is an unacknowledged message above QoS 0.
type inFlightMessage struct {
	message  messaging.Message
	qos      byte
	id       uint16
	released bool // PUBREC was received
	done     bool
	batch    *batch
	index    int // in the batch
}

// errGivenUp is the error of messages in flight that the next session does not continue.
var errGivenUp = &broker.Error{Kind: broker.Unavailable, Op: "publish", Msg: "the connection to publish on was lost, and the next one takes fewer messages at a time; try again"}

// errNotServing is the error of publishing while others use the session.
var errNotServing = &broker.Error{Kind: broker.Unavailable, Op: "publish", Msg: "another node of the cluster uses the connection to publish on"}

func newPublisher(f *Client) *publisher {
	return &publisher{client: f, sending: make(chan struct{}, 1), ready: make(chan struct{}, 1), discardSession: true, inFlight: map[uint16]*inFlightMessage{}}
}

// batch holds the messages of one call.
type batch struct {
	states  []messageState // of each message
	codes   []byte         // reason codes of rejected messages; may be nil
	waiting int            // messages in flight, and one while more are sent
	err     error          // why one was given up
	done    chan struct{}
}

// messageState is the state of a message.
type messageState byte

const (
	statePending messageState = iota
	statePublished
	stateRejected // by the broker
)

func (p *publisher) publish(ctx context.Context, messages []messaging.Message) (done, refused int, err error) {
	if len(messages) == 0 {
		return 0, 0, nil
	}
	select {
	case p.sending <- struct{}{}:
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	b := &batch{states: make([]messageState, len(messages)), waiting: 1, done: make(chan struct{})}
	_, err = p.send(ctx, b, messages)
	p.endSend(b)
	select {
	case <-b.done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.outcome(err)
}

// endSend releases the semaphore of senders.
func (p *publisher) endSend(b *batch) {
	<-p.sending
	notify(p.ready) // which may have been meant for the next sender
	p.mu.Lock()
	defer p.mu.Unlock()
	b.completeOne()
}

// reject records that the broker rejects a message. publisher.mu must be held.
func (b *batch) reject(i int, code byte) {
	b.states[i] = stateRejected
	if b.codes != nil {
		b.codes[i] = code
	}
}

// completeOne decrements waiting. publisher.mu must be held.
func (b *batch) completeOne() {
	if b.waiting--; b.waiting == 0 {
		close(b.done)
	}
}

// outcome counts the messages before the first pending one. publisher.mu must be held.
func (b *batch) outcome(err error) (done, refused int, _ error) {
	for _, e := range b.states {
		if e == statePending {
			break
		}
		done++
		if e == stateRejected {
			refused++
		}
	}
	switch {
	case done == len(b.states):
		return done, refused, nil
	case err == nil:
		err = b.err
	}
	return done, refused, err
}

// send sends messages as fast as the broker accepts them, and counts them.
func (p *publisher) send(ctx context.Context, b *batch, messages []messaging.Message) (n int, err error) {
	defer p.flush()
	for n < len(messages) {
		space, sent, err := p.trySend(b, n, messages[n])
		switch {
		case err != nil:
			return n, err
		case sent:
			n++
			continue
		}
		p.flush()
		select {
		case <-p.ready:
		case <-space:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
	return n, nil
}

// trySend sends one message if there is space. Otherwise the caller waits for the channel
// returned, or for ready. After a lost connection it waits for the next one.
func (p *publisher) trySend(b *batch, i int, m messaging.Message) (space <-chan struct{}, sent bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch c := p.conn; {
	case p.serving != nil && p.serving.Err() != nil:
		return nil, false, errNotServing
	case c == nil && p.resumeTimer != nil:
		return nil, false, nil
	case c == nil:
		return nil, false, p.connectionError()
	case c.out.full(), m.QoS > 0 && len(p.inFlight) >= c.connack.window:
		return c.out.space, false, nil
	}
	p.dispatch(b, i, m)
	return nil, true, nil
}

// dispatch sends one message. p.mu must be held.
func (p *publisher) dispatch(b *batch, i int, m messaging.Message) {
	c := p.conn
	out, valid := p.outgoing(m, min(m.QoS, c.connack.maxQoS))
	out.Retain = out.Retain && !c.connack.noRetain
	switch {
	case !valid:
		b.states[i] = statePublished
		return
	case c.connack.maxPacket > 0 && packet.PublishSize(c.version, &out) > c.connack.maxPacket:
		b.reject(i, packet.ReasonPacketTooLarge)
		return
	case out.QoS == 0:
		b.states[i] = statePublished
	default:
		out.PacketID = p.nextPacketID()
		fl := &inFlightMessage{message: m, qos: out.QoS, id: out.PacketID, batch: b, index: i}
		p.inFlight[fl.id], p.order = fl, append(p.order, fl)
		b.waiting++
	}
	c.publish(&out)
}

// flush writes what was sent.
func (p *publisher) flush() {
	p.mu.Lock()
	c := p.conn
	p.mu.Unlock()
	if c != nil {
		c.out.flush(c.Conn, c.timing.Write)
	}
}

// publish adds a PUBLISH to the send queue, which must be flushed.
func (c *conn) publish(out *packet.Outgoing) {
	c.out.addDeferred(func(dst []byte) []byte { return packet.AppendPublish(dst, c.version, out) })
}

// outgoing returns a PUBLISH, and false if the message has expired.
func (p *publisher) outgoing(m messaging.Message, qos byte) (out packet.Outgoing, valid bool) {
	out = packet.Outgoing{Topic: m.Topic, Payload: m.Payload, Properties: m.Properties, QoS: qos, Retain: m.Retain}
	if m.ExpiresAt == 0 {
		return out, true
	}
	left := m.ExpiresAt - p.client.options.Now().UnixMilli()
	out.Expiry, out.HasExpiry = uint32(min((left+999)/1000, 1<<32-1)), true
	return out, left > 0
}

// nextPacketID returns a free packet identifier. There is one, because the window is smaller
// than their number. p.mu must be held.
func (p *publisher) nextPacketID() uint16 {
	for p.nextID++; p.nextID == 0 || p.inFlight[p.nextID] != nil; p.nextID++ {
	}
	return p.nextID
}

// connectionError returns why there is no connection, or nil. p.mu must be held.
func (p *publisher) connectionError() error {
	switch {
	case p.conn != nil:
		return nil
	case p.cause != nil:
		return p.cause
	}
	return &broker.Error{Kind: broker.Unavailable, Op: "publish", Msg: "the connection to publish on is not made yet; try again", Err: ErrNotConnectedYet}
}

func (p *publisher) currentError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connectionError()
}

// acknowledged handles a PUBACK, PUBREC or PUBCOMP.
func (p *publisher) acknowledged(first byte, body []byte, _ bool) error {
	id, code, err := decodeAck(body)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fl, refused := p.inFlight[id], code >= packet.ReasonUnspecified
	switch kind := first >> 4; {
	case kind == packet.TypePubrec && !refused:
		p.release(id)
	case fl == nil:
	case kind == packet.TypePubrec, kind == packet.TypePuback && fl.qos == 1:
		if refused {
			fl.batch.reject(fl.index, code)
		}
		p.finish(fl, stateFor(refused))
	case kind == packet.TypePubcomp && fl.released: // whatever the code
		p.finish(fl, statePublished)
	}
	return nil
}

func stateFor(refused bool) messageState {
	if refused {
		return stateRejected
	}
	return statePublished
}

// release sends PUBREL. p.mu must be held.
func (p *publisher) release(id uint16) {
	if fl := p.inFlight[id]; fl != nil {
		fl.released = true
	}
	version := p.conn.version
	p.conn.out.add(func(dst []byte) []byte { return packet.AppendAck(dst, version, packet.TypePubrel, id, 0, "") })
}

// finish completes a message; statePending means that it was given up. p.mu must be held.
func (p *publisher) finish(fl *inFlightMessage, e messageState) {
	delete(p.inFlight, fl.id)
	fl.done = true
	fl.batch.states[fl.index] = e
	fl.batch.completeOne()
	n := 0
	for ; n < len(p.order) && p.order[n].done; n++ {
		p.order[n] = nil
	}
	if p.order = p.order[n:]; len(p.order) == 0 {
		p.order = nil
	}
	notify(p.ready)
}
