package systemtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// message is the nth message of a publisher.
type message struct{ publisher, n int }

// payload and readMessage encode and decode it.
func (m message) payload() []byte { return fmt.Appendf(nil, "%d/%d", m.publisher, m.n) }

func readMessage(payload []byte) (m message, ok bool) {
	n, err := fmt.Sscanf(string(payload), "%d/%d", &m.publisher, &m.n)
	return m, n == 2 && err == nil && string(m.payload()) == string(payload)
}

// traffic is clients that publish numbered messages and clients that receive them, on a
// cluster whose nodes fail. Each client knows what was acknowledged to it.
type traffic struct {
	ctx             context.Context // of all connections
	stop            context.CancelFunc
	finish          chan struct{} // closed when nothing new shall be published
	allowDuplicates bool          // QoS 2 may be duplicated if the process of a publisher's node ends
	clients         sync.WaitGroup
	publishing      sync.WaitGroup

	mu          sync.Mutex // guards the fields below
	publishers  []*sender
	subscribers []*subscriber
	violations  []string
	acked       int // in all
}

// worker is the client as which traffic connects: it may do anything below traffic/ and
// below cross/.
const worker = "worker"

// newTraffic creates its client, through a machine, for all machines.
func newTraffic(t testing.TB, m *machine, all ...*machine) *traffic {
	t.Helper()
	acls := []object{}
	for _, kind := range []string{"publishClientSend", "publishClientReceive", "subscribePattern", "unsubscribePattern"} {
		for _, topic := range []string{"traffic/#", "cross/#", "$share/g/traffic/#"} {
			acls = append(acls, object{"acltype": kind, "topic": topic, "priority": 0, "allow": true})
		}
	}
	m.api.must(t, "POST", m.api.at("/roles"), object{"rolename": worker, "acls": acls}, nil)
	m.api.must(t, "POST", m.api.at("/clients"), object{"username": worker, "password": passwordOf(worker), "roles": []object{{"rolename": worker}}}, nil)
	for _, m := range all { // its role was created before; other changes may go on
		suite.WaitFor(t, fmt.Sprintf("node %d has the client %s", m.id, worker), func() bool { return m.knows(t, worker) })
	}
	tr := &traffic{finish: make(chan struct{})}
	tr.ctx, tr.stop = context.WithCancel(t.Context())
	t.Cleanup(tr.end)
	return tr
}

func (tr *traffic) end() {
	tr.stop()
	tr.clients.Wait()
}

// report records a violation, up to a maximum number.
func (tr *traffic) report(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.violations) < 20 {
		tr.violations = append(tr.violations, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (tr *traffic) acknowledged() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.acked
}

// more waits until that many more messages are acknowledged.
func (tr *traffic) awaitAcknowledged(t testing.TB, n int) {
	t.Helper()
	from := tr.acknowledged()
	suite.WaitFor(t, "messages are acknowledged", func() bool { return tr.acknowledged() >= from+n })
}

// addresses are those where a client may be served.
type addresses []string

func clientAddresses(machines ...*machine) (p addresses) {
	for _, m := range machines {
		p = append(p, m.mqtt)
	}
	return p
}

// connect tries one address after the other until it is accepted. A node that lost its
// data refuses all clients until it has joined again. It returns nil when the context
// is done.
func (tr *traffic) connect(name string, p addresses) *link { return tr.connectFrom(0, name, p) }

// connectFrom is connect that starts with the nth address.
func (tr *traffic) connectFrom(n int, name string, p addresses) *link {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for i := n; ; i++ {
		l, err := connectMQTT(tr.ctx, p[i%len(p)], packet.Login{ClientID: name, Username: worker, Password: passwordOf(worker)})
		if err == nil {
			return l
		}
		select {
		case <-again.C:
		case <-tr.ctx.Done():
			return nil
		}
	}
}

// sender publishes numbered messages and repeats each until its handshake is complete,
// as a persistent session must [MQTT-4.4.0-1].
type sender struct {
	*traffic
	number     int
	qos        byte
	retain     bool // its messages are retained
	at         addresses
	next       int // to be sent for the first time
	id         uint16
	inflight   []inflightMessage
	hasSession bool // something was acknowledged in its session

	// Guarded by traffic.mu:
	last         time.Time     // of the last acknowledgement
	longest      time.Duration // maximum interval between two of them
	sent         int
	acknowledged int // whose handshake is complete, in order
}

// inflightMessage is a message whose handshake is not complete.
type inflightMessage struct {
	message
	id       uint16
	released bool // PUBREC was received
}

// window is the maximum number of a sender's messages in flight, sendInterval the
// interval between two, and ackTimeout the maximum time of an acknowledgement before it
// reconnects.
const (
	window       = 8
	sendInterval = 5 * time.Millisecond
	ackTimeout   = 10 * time.Second
)

// publish starts one more publisher, served at one of the addresses.
func (tr *traffic) publish(qos byte, retain bool, at addresses) *sender {
	tr.mu.Lock()
	s := &sender{traffic: tr, number: len(tr.publishers), qos: qos, retain: retain, at: at, last: time.Now()}
	tr.publishers = append(tr.publishers, s)
	tr.mu.Unlock()
	tr.publishing.Add(1)
	tr.clients.Go(func() {
		defer tr.publishing.Done()
		for {
			l := tr.connect(fmt.Sprint("sender-", s.number), at)
			if l == nil {
				return
			}
			err := s.serve(l)
			l.Close()
			if err == nil {
				return
			}
		}
	})
	return s
}

func (s *sender) topic() []byte { return fmt.Appendf(nil, "traffic/%d", s.number) }

// serve uses one connection. It returns nil when everything is done, and otherwise why
// the connection has ended.
func (s *sender) serve(l *link) error {
	s.resume(l)
	next := time.Now()
	waiting := time.Now()
	for {
		over := isClosed(s.finish)
		if over && len(s.inflight) == 0 {
			l.Out = packet.AppendEmpty(l.Out, packet.Disconnect)
			return l.Flush()
		}
		if !over && len(s.inflight) < window && !time.Now().Before(next) {
			s.begin(l)
			next = time.Now().Add(sendInterval)
		}
		if err := l.Flush(); err != nil {
			return err
		}
		first, body, err := l.Next(time.Now().Add(sendInterval))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if len(s.inflight) == 0 {
				waiting = time.Now()
			}
			if time.Since(waiting) > ackTimeout {
				return errNoAck
			}
			continue
		}
		if err != nil {
			return err
		}
		waiting = time.Now()
		if !s.take(l, first, packet.ReadID(body)) {
			s.report("sender %d got packet %#x of id %d while %+v are in flight", s.number, first, packet.ReadID(body), s.inflight)
			return errNoAck
		}
	}
}

var errNoAck = errors.New("nothing is acknowledged any more")

// resume repeats the messages in flight, in the same order [MQTT-4.6.0-1].
func (s *sender) resume(l *link) {
	if !l.present && s.hasSession {
		s.report("sender %d: its session does not exist any more, with %+v in flight", s.number, s.inflight)
	}
	for i := range s.inflight {
		f := &s.inflight[i]
		f.released = f.released && l.present
		if f.released {
			l.Out = packet.AppendAck(l.Out, packet.Pubrel, f.id)
			continue
		}
		s.send(l, *f, l.present)
	}
}

// begin sends a new message.
func (s *sender) begin(l *link) {
	if s.id++; s.id == 0 {
		s.id = 1
	}
	s.inflight = append(s.inflight, inflightMessage{message: message{s.number, s.next}, id: s.id})
	s.next++
	s.mu.Lock()
	s.sent = s.next
	s.mu.Unlock()
	s.send(l, s.inflight[len(s.inflight)-1], false)
}

func (s *sender) send(l *link, f inflightMessage, again bool) {
	l.Out = packet.AppendPublish(l.Out, packet.Message{Topic: s.topic(), Payload: f.payload(), ID: f.id, QoS: s.qos, Retain: s.retain, Dup: again})
}

// take processes an acknowledgement, each of which must be in the order of the messages
// [MQTT-4.6.0-2], [MQTT-4.6.0-3]. It reports whether the packet is one.
func (s *sender) take(l *link, first byte, id uint16) bool {
	released := 0
	for released < len(s.inflight) && s.inflight[released].released {
		released++
	}
	switch {
	case first == packet.Puback && s.qos == 1 && len(s.inflight) > 0 && s.inflight[0].id == id:
		s.finished()
	case first == packet.Pubrec && s.qos == 2 && released < len(s.inflight) && s.inflight[released].id == id:
		s.inflight[released].released = true
		l.Out = packet.AppendAck(l.Out, packet.Pubrel, id)
	case first == packet.Pubcomp && s.qos == 2 && released > 0 && s.inflight[0].id == id:
		s.finished()
	default:
		return false
	}
	s.hasSession = true
	return true
}

// finished removes the first message, whose handshake is complete.
func (s *sender) finished() {
	s.inflight = s.inflight[1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledged++
	s.traffic.acked++
	s.longest = max(s.longest, time.Since(s.last))
	s.last = time.Now()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
