//go:build linux

package load

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// publisher sends numbered messages. Its play and its run are separate goroutines,
// which share only the atomic values.
type publisher struct {
	*client
	number    int
	qos       byte
	window    int64
	topics    [][]byte
	receivers []*subscriber
	json      bool
	payload   []byte
	out       []byte

	goal     int64 // messages to send in all; only used by play, as are the next two
	sent     int64
	admitted int64         // messages that the gauge has admitted
	asked    chan int64    // the number sent before each PINGREQ in flight; nil without pings
	acked    atomic.Int64  // messages that are acknowledged, by an ack of their own or a PINGRESP
	need     atomic.Int64  // how many must have arrived before play continues
	wake     chan struct{} // signals that they have
	acks     *ackTimes     // nil if they are not measured
}

func (s *stream) newPublisher(t Target, n int) (*publisher, error) {
	username := ""
	if s.Username != nil {
		username = s.Username(n)
	}
	login := t.login(s.client("pub", n), username, true)
	c, err := dial(s.ended, t.Addr, login, nil, bufferSize)
	if err != nil {
		return nil, err
	}
	p := &publisher{client: c, number: n, qos: s.QoS, window: int64(s.Window), json: s.JSON, wake: make(chan struct{}, 1)}
	if s.Pings {
		p.asked = make(chan int64, mostPings)
	}
	if s.Rate > 0 && s.Acked {
		p.acks = &ackTimes{}
		if s.Pings {
			p.asked = make(chan int64, mostTimed) // one for each message
		}
	}
	for _, topic := range s.topics(n) {
		p.topics = append(p.topics, []byte(topic))
	}
	for i, sub := range s.subscribers {
		if i%s.Topics == n%s.Topics || s.Filter != "" {
			p.receivers = append(p.receivers, sub)
		}
	}
	return p, nil
}

// play sends up to its goal and waits until everything has arrived. Each message is a
// write of its own, as devices send them; when the window is full, it waits until half
// of it is free.
func (p *publisher) play(ctx context.Context, g *gauge) error {
	half := max(1, p.window/2)
	p.admitted = p.sent
	for arrived := p.progress(); p.sent < p.goal; {
		if p.sent-arrived >= p.window {
			if err := p.await(ctx, p.sent-p.window/2); err != nil {
				return err
			}
			arrived = p.progress()
		}
		if p.sent == p.admitted {
			n := min(half, p.goal-p.sent)
			if err := g.enter(ctx, n); err != nil {
				return err
			}
			p.admitted += n
		}
		if err := p.send(); err != nil {
			return err
		}
		if p.asked != nil && (p.sent%half == 0 || p.sent == p.goal) {
			if err := p.ping(); err != nil {
				return err
			}
		}
	}
	return p.await(ctx, p.goal)
}

// mostPings exceeds the pings in flight: there are two in a window, and one at the
// goal.
const mostPings = 8

// ping sends a PINGREQ, whose response shows that everything before it was received.
func (p *publisher) ping() error {
	p.asked <- p.sent
	_, err := p.Write(packet.AppendEmpty(p.out[:0], packet.Pingreq))
	return err
}

// ponged records the response to a ping. It reports whether a ping was in flight.
func (p *publisher) ponged() bool {
	select {
	case sent := <-p.asked:
		p.acks.acked(sent - 1)
		p.acked.Store(sent)
		return true
	default:
		return false
	}
}

// await waits until that many messages in all have arrived at every receiver.
func (p *publisher) await(ctx context.Context, arrived int64) error {
	p.need.Store(arrived)
	for p.progress() < arrived {
		select {
		case <-p.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// progress returns how many of the messages every receiver has and the broker has
// acknowledged.
func (p *publisher) progress() int64 {
	least := p.sent
	if p.qos > 0 || p.asked != nil {
		least = p.acked.Load()
	}
	for _, r := range p.receivers {
		least = min(least, r.progress[p.number].Load())
	}
	return least
}

// signal wakes play if its condition holds.
func (p *publisher) signal(arrived int64) {
	if arrived < p.need.Load() {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default: // already signalled
	}
}

// send writes the next message.
func (p *publisher) send() error {
	p.payload = stamp{publisher: p.number, seq: p.sent, sent: time.Since(epoch)}.append(p.payload[:0], p.json)
	m := packet.Message{Topic: p.topics[p.sent%int64(len(p.topics))], Payload: p.payload, ID: packetID(p.sent), QoS: p.qos}
	p.out = packet.AppendPublish(p.out[:0], m)
	p.acks.sent(p.sent)
	p.sent++
	if p.acks != nil && p.asked != nil {
		p.asked <- p.sent
		p.out = packet.AppendEmpty(p.out, packet.Pingreq)
	}
	_, err := p.Write(p.out)
	return err
}

// packetID returns the packet identifier of a publisher's message.
func packetID(seq int64) uint16 { return uint16(seq%65_535) + 1 }

// lastAck returns the type of the packet that ends the acknowledgement of a message, 0 for
// none.
func (p *publisher) lastAck() byte {
	switch p.qos {
	case 1:
		return packet.Puback
	case 2:
		return packet.Pubcomp
	}
	return 0
}

// run reads the acknowledgements, which must be in the order of the messages
// [MQTT-4.6.0-2]. Its responses to them are written in batches.
func (p *publisher) run() error {
	var recs int64
	var out []byte
	for {
		first, body, err := p.in.Next()
		if err != nil {
			return fmt.Errorf("publisher %d: %w", p.number, err)
		}
		id, acked := packet.ReadID(body), p.acked.Load()
		switch {
		case p.qos > 0 && first == p.lastAck() && id == packetID(acked):
			p.acks.acked(acked)
			p.acked.Store(acked + 1)
		case first == packet.Pubrec && p.qos == 2 && id == packetID(recs):
			recs++
			out = packet.AppendAck(out, packet.Pubrel, id)
		case first == packet.Pingresp && p.ponged():
		default:
			return fmt.Errorf("publisher %d got packet %#x of %d after %d acknowledgements: %w", p.number, first, id, acked, errWrong)
		}
		if p.in.More() {
			continue
		}
		p.signal(p.acked.Load())
		if len(out) > 0 {
			if _, err := p.Write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
}
