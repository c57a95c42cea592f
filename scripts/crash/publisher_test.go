package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// publisher is a client that numbers its messages and forgets none before it is
// acknowledged to the end, as the standard has it for a session that is kept
// [MQTT-4.4.0-1].
type publisher struct {
	server *server
	ledger *ledger
	number int
	name   string // its client id
	qos    byte
	dice   *rand.Rand
	retain bool          // it writes to the shelves
	pause  *atomic.Bool  // nothing new is to be sent
	goal   int           // how many messages it sends; 0 is as many as there is time for
	window int           // how many are on their way at most
	gap    time.Duration // between two of them at most
	write  func(message) []byte
	breaks int // it cuts its connection after as many messages, on average; 0 for never

	next    int      // message to be sent for the first time
	id      uint16   // used last
	flights []flight // what is not acknowledged to the end, in order
	kept    bool     // the broker must have the session: it has acknowledged something in it
}

// flight is a message that is on its way.
type flight struct {
	message
	id       uint16
	sent     int64 // the ledger's time
	released bool  // PUBREC came
}

// run publishes until finish is closed and everything is acknowledged.
func (p *publisher) run(ctx context.Context, finish <-chan struct{}) {
	for ctx.Err() == nil {
		l, err := connect(ctx, p.server, packet.Login{ClientID: p.name})
		if err != nil {
			complainOfRefusal(p.ledger, p.name, err)
			continue
		}
		err = p.serve(l, finish)
		l.close()
		if err == nil {
			return
		}
	}
}

// complainOfRefusal tells a broker that is not there from one that says no.
func complainOfRefusal(l *ledger, name string, err error) {
	if errors.Is(err, errRefused) || errors.Is(err, errWrongPacket) || errors.Is(err, os.ErrDeadlineExceeded) {
		l.complain("%s cannot connect: %v", name, err)
	}
}

// serve uses one connection. Its error is the end of the connection, nil that
// everything is done.
func (p *publisher) serve(l *link, finish <-chan struct{}) error {
	p.resume(l)
	due, last := time.Now(), p.next+p.dice.IntN(2*p.breaks+1)
	for {
		ended := closed(finish) || p.goal > 0 && p.next == p.goal
		if ended && len(p.flights) == 0 {
			l.out = packet.AppendEmpty(l.out, packet.Disconnect)
			return l.flush()
		}
		open := !ended && len(p.flights) < p.window && !p.pause.Load()
		if now := time.Now(); open && !now.Before(due) {
			p.publish(l)
			due = now.Add(time.Duration(p.dice.Int64N(int64(p.gap) + 1)))
			if p.gap == 0 {
				continue // what fits the window is written at once
			}
		}
		if err := l.flush(); err != nil {
			return err
		}
		if p.breaks > 0 && p.next > last {
			return errCut
		}
		if err := p.take(l, open, due); err != nil {
			return err
		}
	}
}

var errCut = errors.New("the publisher has cut its connection")

// take reads a packet, and those that came with it. Where more may be published
// it does not wait for longer than that.
func (p *publisher) take(l *link, open bool, due time.Time) error {
	if waits := len(p.flights) > 0; !open && waits {
		due = time.Now().Add(suite.HangLimit)
	} else if !open {
		due = time.Now().Add(idle)
	}
	for {
		first, body, err := l.next(due)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if open || len(p.flights) == 0 {
				return nil
			}
			p.ledger.complain("%s waited %v for an acknowledgement", p.name, suite.HangLimit)
		}
		if err == nil && !p.acknowledge(l, first, packet.ReadID(body)) {
			p.ledger.complain("%s got packet %#x of id %d while %+v are on their way", p.name, first, packet.ReadID(body), p.flights)
			err = errWrongPacket
		}
		if err != nil || !l.in.More() {
			return err
		}
	}
}

// resume sends again what is on its way, in the same order [MQTT-4.6.0-1]. A
// session that is gone is what the broker promised to keep.
func (p *publisher) resume(l *link) {
	if !l.present && p.kept {
		p.ledger.complain("%s: its session is gone, with %+v on their way", p.name, p.flights)
	}
	for i := range p.flights {
		f := &p.flights[i]
		if !l.present {
			f.released = false
		}
		if f.released {
			l.out = packet.AppendAck(l.out, packet.Pubrel, f.id)
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
	p.flights = append(p.flights, flight{message: message{p.number, p.next}, id: p.id})
	p.next++
	p.send(l, &p.flights[len(p.flights)-1], false)
}

func (p *publisher) send(l *link, f *flight, again bool) {
	f.sent = p.ledger.sending(f.message)
	m := packet.Message{Topic: []byte(topic(p.number)), Payload: p.write(f.message), ID: f.id, QoS: p.qos, Retain: p.retain, Dup: again}
	if p.retain {
		m.Topic, m.Payload = []byte(shelfTopic(shelfOf(f.n))), shelfPayload(f.message)
	}
	l.out = packet.AppendPublish(l.out, m)
}

// acknowledge takes an acknowledgement, each of which must come in the order of
// the messages [MQTT-4.6.0-2], [MQTT-4.6.0-3]. It tells whether it is one.
func (p *publisher) acknowledge(l *link, first byte, id uint16) bool {
	released := 0
	for released < len(p.flights) && p.flights[released].released {
		released++
	}
	switch {
	case first == packet.Puback && p.qos == 1 && len(p.flights) > 0 && p.flights[0].id == id:
		p.ledger.acknowledged(l.life, p.flights[0].sent)
		p.finish()
	case first == packet.Pubrec && p.qos == 2 && released < len(p.flights) && p.flights[released].id == id:
		p.flights[released].released = true
		p.ledger.acknowledged(l.life, p.flights[released].sent)
		l.out = packet.AppendAck(l.out, packet.Pubrel, id)
	case first == packet.Pubcomp && p.qos == 2 && released > 0 && p.flights[0].id == id:
		p.finish()
	default:
		return false
	}
	p.kept = true
	return true
}

// finish forgets the first message.
func (p *publisher) finish() {
	p.ledger.finished(p.flights[0].message)
	p.flights = p.flights[1:]
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
