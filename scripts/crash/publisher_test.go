package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// publisher is a client that numbers its messages and sends each again until its
// handshake is complete, as a persistent session must [MQTT-4.4.0-1].
type publisher struct {
	server   *server
	expected *expectedState
	number   int
	name     string // its client id
	qos      byte
	rng      *rand.Rand
	retain   bool          // its messages are retained
	pause    *atomic.Bool  // nothing new is to be sent
	total    int           // how many messages it sends; 0 is as many as there is time for
	window   int           // how many are in flight at most
	gap      time.Duration // between two of them at most
	write    func(message) []byte
	cutEvery int // it cuts its connection after as many messages, on average; 0 for never

	next       int               // message to be sent for the first time
	id         uint16            // used last
	inflight   []inflightMessage // whose handshake is not complete, in order
	hasSession bool              // the broker must have the session: it has acknowledged something in it
}

// inflightMessage is a message whose handshake is not complete.
type inflightMessage struct {
	message
	id       uint16
	sent     int64 // time by expectedState
	released bool  // PUBREC came
}

// run publishes until finish is closed and everything is acknowledged.
func (p *publisher) run(ctx context.Context, finish <-chan struct{}) {
	for ctx.Err() == nil {
		l, err := connect(ctx, p.server, packet.Login{ClientID: p.name})
		if err != nil {
			reportRefusal(p.expected, p.name, err)
			continue
		}
		err = p.serve(l, finish)
		l.Close()
		if err == nil {
			return
		}
	}
}

// reportRefusal reports a broker that refuses a connection, not one that is down.
func reportRefusal(l *expectedState, name string, err error) {
	if errors.Is(err, errRefused) || errors.Is(err, errWrongPacket) || errors.Is(err, os.ErrDeadlineExceeded) {
		l.report("%s cannot connect: %v", name, err)
	}
}

// serve uses one connection. It returns nil when everything is done, and otherwise why
// the connection has ended.
func (p *publisher) serve(l *link, finish <-chan struct{}) error {
	p.resume(l)
	due, last := time.Now(), p.next+p.rng.IntN(2*p.cutEvery+1)
	for {
		ended := closed(finish) || p.total > 0 && p.next == p.total
		if ended && len(p.inflight) == 0 {
			l.Out = packet.AppendEmpty(l.Out, packet.Disconnect)
			return l.Flush()
		}
		open := !ended && len(p.inflight) < p.window && !p.pause.Load()
		if now := time.Now(); open && !now.Before(due) {
			p.publish(l)
			due = now.Add(time.Duration(p.rng.Int64N(int64(p.gap) + 1)))
			if p.gap == 0 {
				continue // what fits the window is written at once
			}
		}
		if err := l.Flush(); err != nil {
			return err
		}
		if p.cutEvery > 0 && p.next > last {
			return errCut
		}
		if err := p.take(l, open, due); err != nil {
			return err
		}
	}
}

var errCut = errors.New("the publisher has cut its connection")

// take reads a packet, and those that came with it. Where more may be published it
// waits until due at most.
func (p *publisher) take(l *link, open bool, due time.Time) error {
	if waits := len(p.inflight) > 0; !open && waits {
		due = time.Now().Add(suite.HangLimit)
	} else if !open {
		due = time.Now().Add(idle)
	}
	for {
		first, body, err := l.Next(due)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if open || len(p.inflight) == 0 {
				return nil
			}
			p.expected.report("%s waited %v for an acknowledgement", p.name, suite.HangLimit)
		}
		if err == nil && !p.acknowledge(l, first, packet.ReadID(body)) {
			p.expected.report("%s got packet %#x of id %d while %+v are in flight", p.name, first, packet.ReadID(body), p.inflight)
			err = errWrongPacket
		}
		if err != nil || !l.More() {
			return err
		}
	}
}

// resume sends again what is in flight, in the same order [MQTT-4.6.0-1]. A session in
// which the broker has acknowledged something must exist.
func (p *publisher) resume(l *link) {
	if !l.present && p.hasSession {
		p.expected.report("%s: its session does not exist any more, with %+v in flight", p.name, p.inflight)
	}
	for i := range p.inflight {
		f := &p.inflight[i]
		if !l.present {
			f.released = false
		}
		if f.released {
			l.Out = packet.AppendAck(l.Out, packet.Pubrel, f.id)
			continue
		}
		p.send(l, f, l.present)
	}
}

// publish sends a new message.
func (p *publisher) publish(l *link) {
	if p.id++; p.id == 0 {
		p.id = 1
	}
	p.inflight = append(p.inflight, inflightMessage{message: message{p.number, p.next}, id: p.id})
	p.next++
	p.send(l, &p.inflight[len(p.inflight)-1], false)
}

func (p *publisher) send(l *link, f *inflightMessage, again bool) {
	f.sent = p.expected.sending(f.message)
	m := packet.Message{Topic: []byte(topic(p.number)), Payload: p.write(f.message), ID: f.id, QoS: p.qos, Retain: p.retain, Dup: again}
	if p.retain {
		m.Topic, m.Payload = []byte(retainedTopic(retainedTopicOf(f.n))), retainedPayload(f.message)
	}
	l.Out = packet.AppendPublish(l.Out, m)
}

// acknowledge processes an acknowledgement, each of which must come in the order of
// the messages [MQTT-4.6.0-2], [MQTT-4.6.0-3]. It reports whether the packet is one.
func (p *publisher) acknowledge(l *link, first byte, id uint16) bool {
	released := 0
	for released < len(p.inflight) && p.inflight[released].released {
		released++
	}
	switch {
	case first == packet.Puback && p.qos == 1 && len(p.inflight) > 0 && p.inflight[0].id == id:
		p.expected.acknowledged(l.life, p.inflight[0].sent)
		p.finish()
	case first == packet.Pubrec && p.qos == 2 && released < len(p.inflight) && p.inflight[released].id == id:
		p.inflight[released].released = true
		p.expected.acknowledged(l.life, p.inflight[released].sent)
		l.Out = packet.AppendAck(l.Out, packet.Pubrel, id)
	case first == packet.Pubcomp && p.qos == 2 && released > 0 && p.inflight[0].id == id:
		p.finish()
	default:
		return false
	}
	p.hasSession = true
	return true
}

// finish removes the first message, whose handshake is complete.
func (p *publisher) finish() {
	p.expected.completed(p.inflight[0].message)
	p.inflight = p.inflight[1:]
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
