//go:build linux

package load

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"signalbox/scripts/bench/packet"
)

// publisher sends numbered messages. Its play and its run are goroutines of
// their own, which meet in the atomic values.
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

	goal  int64 // messages to be sent in all; of play only, as the next two
	sent  int64
	let   int64         // messages that the gauge has let in
	asked chan int64    // how many were sent before each PINGREQ that waits; nil without
	acked atomic.Int64  // messages whose last acknowledgement came, or a PINGRESP after them
	need  atomic.Int64  // how many must have arrived before play goes on
	wake  chan struct{} // signals that this many have
	acks  *ackTimes     // nil where nobody asks
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

// play sends up to its goal and waits until all has arrived. Each message is a
// write of its own, as devices send them; where the window is full, it waits
// until half of it is free.
func (p *publisher) play(ctx context.Context, g *gauge) error {
	half := max(1, p.window/2)
	p.let = p.sent
	for arrived := p.progress(); p.sent < p.goal; {
		if p.sent-arrived >= p.window {
			if err := p.await(ctx, p.sent-p.window/2); err != nil {
				return err
			}
			arrived = p.progress()
		}
		if p.sent == p.let {
			n := min(half, p.goal-p.sent)
			if err := g.enter(ctx, n); err != nil {
				return err
			}
			p.let += n
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

// mostPings is more than can wait for their answers: there are two in a window,
// and one at the goal.
const mostPings = 8

// ping asks for an answer that comes when everything before was taken.
func (p *publisher) ping() error {
	p.asked <- p.sent
	_, err := p.Write(packet.AppendEmpty(p.out[:0], packet.Pingreq))
	return err
}

// answered takes the answer to a ping. It tells whether there was one.
func (p *publisher) answered() bool {
	select {
	case sent := <-p.asked:
		p.acks.acked(sent - 1)
		p.acked.Store(sent)
		return true
	default:
		return false
	}
}

// await waits until that many messages in all have arrived everywhere.
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

// progress is how many of the messages every receiver has, and the broker has
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

// signal wakes play where it has what it waits for.
func (p *publisher) signal(arrived int64) {
	if arrived < p.need.Load() {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
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

// packetID is the identifier of a publisher's message.
func packetID(seq int64) uint16 { return uint16(seq%65_535) + 1 }

// run reads the acknowledgements, which must come in the order of the messages
// [MQTT-4.6.0-2]. Those that are to be answered are answered together.
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
		case first == packet.Puback && p.qos == 1 && id == packetID(acked), first == packet.Pubcomp && p.qos == 2 && id == packetID(acked):
			p.acks.acked(acked)
			p.acked.Store(acked + 1)
		case first == packet.Pubrec && p.qos == 2 && id == packetID(recs):
			recs++
			out = packet.AppendAck(out, packet.Pubrel, id)
		case first == packet.Pingresp && p.answered():
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
