package systemtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// note is a message: the nth of a publisher.
type note struct{ publisher, n int }

// payload and readNote write and read it.
func (m note) payload() []byte { return fmt.Appendf(nil, "%d/%d", m.publisher, m.n) }

func readNote(payload []byte) (m note, ok bool) {
	n, err := fmt.Sscanf(string(payload), "%d/%d", &m.publisher, &m.n)
	return m, n == 2 && err == nil && string(m.payload()) == string(payload)
}

// traffic is clients that publish numbered messages and clients that get them, on
// a cluster whose nodes fail. Each client knows what it was promised.
type traffic struct {
	ctx        context.Context // of all connections
	stop       context.CancelFunc
	finish     chan struct{} // closed when nothing new is to be published
	again      bool          // QoS 2 may come twice where the process of a publisher's node ends
	clients    sync.WaitGroup
	publishing sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	publishers []*sender
	readers    []*reader
	complaints []string
	acked      int // in all
}

// worker is the client as which traffic logs in: it may do anything below traffic/
// and below cross/.
const worker = "worker"

// newTraffic makes its client, through a machine, for all machines.
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
	wantSame(t, append(all, m)...)
	tr := &traffic{finish: make(chan struct{})}
	tr.ctx, tr.stop = context.WithCancel(t.Context())
	t.Cleanup(tr.end)
	return tr
}

func (tr *traffic) end() {
	tr.stop()
	tr.clients.Wait()
}

// complain notes what is wrong; of much only the beginning.
func (tr *traffic) complain(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.complaints) < 20 {
		tr.complaints = append(tr.complaints, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (tr *traffic) acknowledged() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.acked
}

// more waits until that many more messages are acknowledged.
func (tr *traffic) more(t testing.TB, n int) {
	t.Helper()
	from := tr.acknowledged()
	suite.WaitFor(t, "messages are acknowledged", func() bool { return tr.acknowledged() >= from+n })
}

// places are the addresses at which a client may be served.
type places []string

func clientAddresses(machines ...*machine) (p places) {
	for _, m := range machines {
		p = append(p, m.mqtt)
	}
	return p
}

// connect tries one place after the other until it is let in. A node that lost its
// data refuses everybody until it is one again. It is nil when the context ends.
func (tr *traffic) connect(name string, p places) *link { return tr.connectFrom(0, name, p) }

// connectFrom is connect that begins with the nth place.
func (tr *traffic) connectFrom(n int, name string, p places) *link {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for i := n; ; i++ {
		l, err := attachAs(tr.ctx, p[i%len(p)], packet.Login{ClientID: name, Username: worker, Password: passwordOf(worker)})
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

// sender publishes numbered messages and forgets none before it is acknowledged
// to the end, as the standard has it for a session that is kept [MQTT-4.4.0-1].
type sender struct {
	*traffic
	number  int
	qos     byte
	retain  bool // to a topic that keeps the last one
	at      places
	next    int // to be sent for the first time
	id      uint16
	flights []flight
	kept    bool // something was acknowledged in its session

	// Guarded by traffic.mu:
	last    time.Time     // of the last acknowledgement
	longest time.Duration // between two of them
	sent    int
	done    int // acknowledged to the end, in order
}

// flight is a message that is on its way.
type flight struct {
	note
	id       uint16
	released bool // PUBREC came
}

// window is how many messages of a sender are on their way at most, beat how often
// it sends one, and tired how long it waits for an acknowledgement before it
// connects anew.
const (
	window = 8
	beat   = 5 * time.Millisecond
	tired  = 10 * time.Second
)

// publish has one more client publish, served at one of the places.
func (tr *traffic) publish(qos byte, retain bool, at places) *sender {
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
			l.close()
			if err == nil {
				return
			}
		}
	})
	return s
}

func (s *sender) topic() []byte { return fmt.Appendf(nil, "traffic/%d", s.number) }

// serve uses one connection. Its error is the end of the connection, nil that
// everything is done.
func (s *sender) serve(l *link) error {
	s.resume(l)
	next := time.Now()
	waiting := time.Now()
	for {
		over := isClosed(s.finish)
		if over && len(s.flights) == 0 {
			l.out = packet.AppendEmpty(l.out, packet.Disconnect)
			return l.flush()
		}
		if !over && len(s.flights) < window && !time.Now().Before(next) {
			s.begin(l)
			next = time.Now().Add(beat)
		}
		if err := l.flush(); err != nil {
			return err
		}
		first, body, err := l.next(time.Now().Add(beat))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			if len(s.flights) == 0 {
				waiting = time.Now()
			}
			if time.Since(waiting) > tired {
				return errTired
			}
			continue
		}
		if err != nil {
			return err
		}
		waiting = time.Now()
		if !s.take(l, first, packet.ReadID(body)) {
			s.complain("sender %d got packet %#x of id %d while %+v are on their way", s.number, first, packet.ReadID(body), s.flights)
			return errTired
		}
	}
}

var errTired = errors.New("nothing is acknowledged any more")

// resume sends again what is on its way, in the same order [MQTT-4.6.0-1].
func (s *sender) resume(l *link) {
	if !l.present && s.kept {
		s.complain("sender %d: its session is gone, with %+v on their way", s.number, s.flights)
	}
	for i := range s.flights {
		f := &s.flights[i]
		f.released = f.released && l.present
		if f.released {
			l.out = packet.AppendAck(l.out, packet.Pubrel, f.id)
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
	s.flights = append(s.flights, flight{note: note{s.number, s.next}, id: s.id})
	s.next++
	s.mu.Lock()
	s.sent = s.next
	s.mu.Unlock()
	s.send(l, s.flights[len(s.flights)-1], false)
}

func (s *sender) send(l *link, f flight, again bool) {
	l.out = packet.AppendPublish(l.out, packet.Message{Topic: s.topic(), Payload: f.payload(), ID: f.id, QoS: s.qos, Retain: s.retain, Dup: again})
}

// take takes an acknowledgement, each of which must come in the order of the
// messages [MQTT-4.6.0-2], [MQTT-4.6.0-3]. It tells whether it is one.
func (s *sender) take(l *link, first byte, id uint16) bool {
	released := 0
	for released < len(s.flights) && s.flights[released].released {
		released++
	}
	switch {
	case first == packet.Puback && s.qos == 1 && len(s.flights) > 0 && s.flights[0].id == id:
		s.finished()
	case first == packet.Pubrec && s.qos == 2 && released < len(s.flights) && s.flights[released].id == id:
		s.flights[released].released = true
		l.out = packet.AppendAck(l.out, packet.Pubrel, id)
	case first == packet.Pubcomp && s.qos == 2 && released > 0 && s.flights[0].id == id:
		s.finished()
	default:
		return false
	}
	s.kept = true
	return true
}

// finished forgets the first message.
func (s *sender) finished() {
	s.flights = s.flights[1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done++
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
