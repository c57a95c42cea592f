package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// subscriber is a client with a persistent session: it keeps the identifiers of QoS 2
// messages between PUBREC and PUBREL, as the receiver of method B in the standard
// [MQTT-4.3.3].
type subscriber struct {
	server     *server
	name       string // its client id
	rng        *rand.Rand
	leaveModes []leaveMode // how it ends connections now and then; none for one that stays connected
	qos        byte
	five       uint16 // how many messages it takes at a time over MQTT 5; 0 for MQTT 3.1.1

	held                    map[uint16]message
	ackedSincePing          []*delivery // acknowledged after the last PINGREQ
	ackedBeforePing         []*delivery // acknowledged before the last PINGREQ
	ackedBeforePreviousPing []*delivery // acknowledged before the one before it, which was answered
	pinging                 bool
	pubcompSincePing        bool  // has sent a PUBCOMP after the last PINGREQ
	old                     *link // still open while the next one is made, after a take-over
	subscribed              chan struct{}

	mu     sync.Mutex // guards record
	record *record
}

// leaveMode is how a client ends a connection.
type leaveMode int

// The ways to end a connection.
const (
	cut        leaveMode = iota // closes the connection
	disconnect                  // sends DISCONNECT
	takeOver                    // connects again first
)

func newSubscriber(s *server, l *expectedState, name string, qos byte, rng *rand.Rand, modes ...leaveMode) *subscriber {
	return &subscriber{server: s, name: name, qos: qos, rng: rng, leaveModes: modes, held: map[uint16]message{},
		subscribed: make(chan struct{}), record: newRecord(l, name, qos)}
}

// run reads until ctx ends. Once stay is closed it does not disconnect any more.
func (s *subscriber) run(ctx context.Context, stay <-chan struct{}) {
	defer func() { s.dropOld() }()
	for ctx.Err() == nil {
		l, err := connect(ctx, s.server, packet.Login{ClientID: s.name, Five: s.five})
		s.dropOld()
		if err != nil {
			reportRefusal(s.record.expected, s.name, err)
			continue
		}
		how, err := s.serve(l, stay)
		if err == nil && how == takeOver {
			s.old = l
			continue
		}
		if err == nil && how == disconnect {
			l.Out = packet.AppendEmpty(l.Out, packet.Disconnect)
			l.Flush() //nolint:errcheck // the connection ends either way
		}
		l.Close()
		s.pauseBeforeReconnect(ctx, stay)
	}
}

func (s *subscriber) dropOld() {
	if s.old != nil {
		s.old.Close()
		s.old = nil
	}
}

// pauseBeforeReconnect waits a little, unless stay is closed.
func (s *subscriber) pauseBeforeReconnect(ctx context.Context, stay <-chan struct{}) {
	if len(s.leaveModes) == 0 {
		return
	}
	wait := time.NewTimer(time.Duration(s.rng.IntN(150)) * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-stay:
	case <-ctx.Done():
	}
}

// serve uses one connection until its end, which is an error, or until it is time to
// disconnect.
func (s *subscriber) serve(l *link, stay <-chan struct{}) (leaveMode, error) {
	s.begin(l)
	leave := time.Now().Add(time.Duration(10+s.rng.IntN(300)) * time.Millisecond)
	for {
		restless := len(s.leaveModes) > 0 && !closed(stay)
		if restless && !time.Now().Before(leave) {
			return s.leaveModes[s.rng.IntN(len(s.leaveModes))], nil
		}
		s.ping(l)
		if err := l.Flush(); err != nil {
			return 0, err
		}
		if err := s.read(l, restless, leave); err != nil {
			return 0, err
		}
	}
}

// serverShuttingDown is the reason code with which a broker that is asked to end
// disconnects clients of MQTT 5.
const serverShuttingDown = 0x8b

var errEnded = errors.New("the broker is shutting down")

// idle is how long a subscriber waits for a message before it checks whether to
// disconnect.
const idle = 20 * time.Millisecond

// read takes one packet, and those that came with it.
func (s *subscriber) read(l *link, restless bool, leave time.Time) error {
	until := time.Now().Add(idle)
	if restless && leave.Before(until) {
		until = leave
	}
	for {
		first, body, err := l.Next(until)
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
			s.record.expected.report("%s got packet %#x % x", s.name, first, body[:min(len(body), 40)])
			return err
		}
		if !l.More() {
			return nil
		}
	}
}

// begin resumes the session, or starts it where there is none yet.
func (s *subscriber) begin(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.connected()
	s.ackedSincePing, s.ackedBeforePing, s.ackedBeforePreviousPing, s.pinging, s.pubcompSincePing = nil, nil, nil, false, false
	if s.record.from != nil && l.present {
		return
	}
	if s.record.from != nil {
		s.record.expected.report("%s: its session does not exist any more", s.name)
	} else {
		s.record.forget()
	}
	if !l.present {
		clear(s.held)
	}
	l.subscribe(allTopics, s.qos)
}

// ping sends PINGREQ now and then, to learn when the acknowledgements so far have been
// processed. Brokers may respond while they are about to process what came with the
// PINGREQ; when they respond to the next one, they have done so.
func (s *subscriber) ping(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pinging || len(s.ackedSincePing)+len(s.ackedBeforePing) == 0 && !s.pubcompSincePing {
		return
	}
	s.pinging, s.pubcompSincePing = true, false
	s.ackedBeforePreviousPing, s.ackedBeforePing, s.ackedSincePing = s.ackedBeforePing, s.ackedSincePing, nil
	l.Out = packet.AppendEmpty(l.Out, packet.Pingreq)
}

func (s *subscriber) take(l *link, first byte, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := packet.ReadID(body)
	switch {
	case packet.Kind(first) == packet.Publish:
		return s.publish(l, first, body)
	case first == packet.Pubrel:
		delete(s.held, id) // it may have been removed: PUBCOMP was lost
		l.Out = packet.AppendAck(l.Out, packet.Pubcomp, id)
		s.pubcompSincePing = true
	case first == packet.Pingresp && s.pinging:
		s.pinging = false
		s.record.ackProcessed(s.ackedBeforePreviousPing, l.life)
		s.ackedBeforePreviousPing = nil
	case first == packet.Suback && len(body) >= 3 && body[len(body)-1] == s.qos:
		s.subscriptionGranted()
	default:
		return errWrongPacket
	}
	return nil
}

// subscriptionGranted notes that the subscription is in force: what is sent from now on
// must be delivered.
func (s *subscriber) subscriptionGranted() {
	if s.record.from == nil {
		s.record.from = s.record.expected.sentUpTo()
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
		s.ackedSincePing = append(s.ackedSincePing, s.record.receive(m, 1, p.Dup, l.life))
		l.Out = packet.AppendAck(l.Out, packet.Puback, p.ID)
	case 2:
		s.hold(m, p, l.life)
		l.Out = packet.AppendAck(l.Out, packet.Pubrec, p.ID)
	default:
		return errWrongPacket
	}
	return nil
}

// hold stores a message of QoS 2 whose identifier is not in use; otherwise it must be
// the same message again [MQTT-4.3.3-10].
func (s *subscriber) hold(m message, p packet.Message, life int) {
	held, again := s.held[p.ID]
	switch {
	case !again:
		s.held[p.ID] = m
		s.record.receive(m, 2, p.Dup, life)
	case held != m:
		s.record.expected.report("%s got %v with id %d, which %v still has", s.name, m, p.ID, held)
	case !p.Dup:
		s.record.expected.report("%s got %v with id %d again without DUP", s.name, m, p.ID)
	}
}

// missing returns what has not been delivered yet, and whether the client is idle: no
// acknowledgement without a PINGRESP after it, no message of QoS 2 without PUBREL.
func (s *subscriber) missing() (n int, first message, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, first = s.record.missing()
	return n, first, len(s.held)+len(s.ackedSincePing)+len(s.ackedBeforePing) == 0 && !s.pinging && !s.pubcompSincePing
}
