package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"signalbox/scripts/bench/packet"
)

// subscriber is a client that keeps its session over all connections: the
// identifiers of QoS 2 messages between PUBREC and PUBREL, as the receiver of
// method B in the standard [MQTT-4.3.3].
type subscriber struct {
	server *server
	name   string // its client id
	dice   *rand.Rand
	habits []leaving // ways in which it leaves now and then; none for one that stays
	qos    byte
	five   uint16 // how many messages it takes at a time over MQTT 5; 0 for MQTT 3.1.1

	held       map[uint16]message
	unsettled  []*arrival // acknowledged after the last PINGREQ
	asked      []*arrival // acknowledged before the last PINGREQ
	answered   []*arrival // acknowledged before the one before it, which was answered
	pinging    bool
	owing      bool  // has sent a PUBCOMP after the last PINGREQ
	old        *link // still open while the next one is made, after a take-over
	subscribed chan struct{}

	mu     sync.Mutex // guards record
	record *record
}

// leaving is how a client ends a connection.
type leaving int

// The ways to leave.
const (
	cut      leaving = iota // closes the connection
	goodbye                 // says DISCONNECT
	takeOver                // connects again first
)

func newSubscriber(s *server, l *ledger, name string, qos byte, dice *rand.Rand, habits ...leaving) *subscriber {
	return &subscriber{server: s, name: name, qos: qos, dice: dice, habits: habits, held: map[uint16]message{},
		subscribed: make(chan struct{}), record: newRecord(l, name, qos)}
}

// run reads until ctx ends. Once calm is closed it does not leave any more.
func (s *subscriber) run(ctx context.Context, calm <-chan struct{}) {
	defer func() { s.dropOld() }()
	for ctx.Err() == nil {
		l, err := connect(ctx, s.server, packet.Login{ClientID: s.name, Five: s.five})
		s.dropOld()
		if err != nil {
			complainOfRefusal(s.record.ledger, s.name, err)
			continue
		}
		how, err := s.serve(l, calm)
		if err == nil && how == takeOver {
			s.old = l
			continue
		}
		if err == nil && how == goodbye {
			l.out = packet.AppendEmpty(l.out, packet.Disconnect)
			l.flush() //nolint:errcheck // it leaves either way
		}
		l.close()
		s.stayAway(ctx, calm)
	}
}

func (s *subscriber) dropOld() {
	if s.old != nil {
		s.old.close()
		s.old = nil
	}
}

// stayAway waits a little, unless it is time to be calm.
func (s *subscriber) stayAway(ctx context.Context, calm <-chan struct{}) {
	if len(s.habits) == 0 {
		return
	}
	wait := time.NewTimer(time.Duration(s.dice.IntN(150)) * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-calm:
	case <-ctx.Done():
	}
}

// serve uses one connection until its end, which is an error, or until it wants
// to leave.
func (s *subscriber) serve(l *link, calm <-chan struct{}) (leaving, error) {
	s.begin(l)
	leave := time.Now().Add(time.Duration(10+s.dice.IntN(300)) * time.Millisecond)
	for {
		restless := len(s.habits) > 0 && !closed(calm)
		if restless && !time.Now().Before(leave) {
			return s.habits[s.dice.IntN(len(s.habits))], nil
		}
		s.ping(l)
		if err := l.flush(); err != nil {
			return 0, err
		}
		if err := s.read(l, restless, leave); err != nil {
			return 0, err
		}
	}
}

// serverShuttingDown is why a broker that is asked to end disconnects its
// clients of MQTT 5.
const serverShuttingDown = 0x8b

var errEnded = errors.New("the broker says that it ends")

// idle is how long a subscriber waits for a message before it looks up.
const idle = 20 * time.Millisecond

// read takes one packet, and those that came with it.
func (s *subscriber) read(l *link, restless bool, leave time.Time) error {
	until := time.Now().Add(idle)
	if restless && leave.Before(until) {
		until = leave
	}
	for {
		first, body, err := l.next(until)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if l.five && first == packet.Disconnect && len(body) > 0 && body[0] == serverShuttingDown {
			return errEnded
		}
		if err := s.take(l, first, body); err != nil {
			s.record.ledger.complain("%s got packet %#x % x", s.name, first, body[:min(len(body), 40)])
			return err
		}
		if !l.in.More() {
			return nil
		}
	}
}

// begin resumes the session, or begins it where there is none yet.
func (s *subscriber) begin(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.connected()
	s.unsettled, s.asked, s.answered, s.pinging, s.owing = nil, nil, nil, false, false
	if s.record.from != nil && l.present {
		return
	}
	if s.record.from != nil {
		s.record.ledger.complain("%s: its session is gone", s.name)
	} else {
		s.record.forget()
	}
	if !l.present {
		clear(s.held)
	}
	l.subscribe(everything, s.qos)
}

// ping asks, now and then, for an answer that comes after the acknowledgements
// so far were dealt with. Brokers may answer while they are about to pass on what
// came with the PINGREQ; when they answer the next one, they have done so.
func (s *subscriber) ping(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinging || len(s.unsettled)+len(s.asked) == 0 && !s.owing {
		return
	}
	s.pinging, s.owing = true, false
	s.answered, s.asked, s.unsettled = s.asked, s.unsettled, nil
	l.out = packet.AppendEmpty(l.out, packet.Pingreq)
}

func (s *subscriber) take(l *link, first byte, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := packet.ReadID(body)
	switch {
	case packet.Kind(first) == packet.Publish:
		return s.publish(l, first, body)
	case first == packet.Pubrel:
		delete(s.held, id) // it may be gone: PUBCOMP got lost
		l.out = packet.AppendAck(l.out, packet.Pubcomp, id)
		s.owing = true
	case first == packet.Pingresp && s.pinging:
		s.pinging = false
		s.record.settle(s.answered, l.life)
		s.answered = nil
	case first == packet.Suback && len(body) >= 3 && body[len(body)-1] == s.qos:
		s.grant()
	default:
		return errWrongPacket
	}
	return nil
}

// grant notes that the subscription holds: what is sent from now on must come.
func (s *subscriber) grant() {
	if s.record.from == nil {
		s.record.from = s.record.ledger.sentUpTo()
		close(s.subscribed)
	}
}

func (s *subscriber) publish(l *link, first byte, body []byte) error {
	p, ok := l.readPublish(first, body)
	m, known := readMessage(p.Payload)
	if !ok || !known || p.Retain || string(p.Topic) != topic(m.publisher) {
		return errWrongPacket
	}
	switch p.QoS {
	case 1:
		s.unsettled = append(s.unsettled, s.record.take(m, 1, p.Dup, l.life))
		l.out = packet.AppendAck(l.out, packet.Puback, p.ID)
	case 2:
		s.hold(m, p, l.life)
		l.out = packet.AppendAck(l.out, packet.Pubrec, p.ID)
	default:
		return errWrongPacket
	}
	return nil
}

// hold takes a message of QoS 2 whose identifier is not in use; otherwise it
// must be the same message again [MQTT-4.3.3-10].
func (s *subscriber) hold(m message, p packet.Message, life int) {
	held, again := s.held[p.ID]
	switch {
	case !again:
		s.held[p.ID] = m
		s.record.take(m, 2, p.Dup, life)
	case held != m:
		s.record.ledger.complain("%s got %v with id %d, which %v still has", s.name, m, p.ID, held)
	case !p.Dup:
		s.record.ledger.complain("%s got %v with id %d again without DUP", s.name, m, p.ID)
	}
}

// missing tells what has not come yet, and whether nothing is under way: no
// acknowledgement without a PINGRESP after it, no message of QoS 2 without PUBREL.
func (s *subscriber) missing() (n int, first message, rests bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, first = s.record.missing()
	return n, first, len(s.held)+len(s.unsettled)+len(s.asked) == 0 && !s.pinging && !s.owing
}
