package systemtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// subscriber is a client with a persistent session: it keeps the identifiers of QoS 2
// messages between PUBREC and PUBREL [MQTT-4.3.3].
type subscriber struct {
	*traffic
	name   string
	filter string
	qos    byte
	at     addresses
	roams  bool // periodically, from address to address
	held   map[uint16]message

	mu          sync.Mutex      // guards the fields below
	deliveries  map[message]int // how often
	next        map[int]int     // by publisher: the first message that was not delivered
	moves       int             // connections so far
	newSessions int             // sessions that it had to create while the previous one was unreachable

	ready   chan struct{} // closed when it is subscribed
	paused  chan struct{} // closed when it shall disconnect
	resumed chan struct{} // closed when it may reconnect
}

// subscribe starts one more subscriber, and waits until it is subscribed.
func (tr *traffic) subscribe(t testing.TB, name, filter string, qos byte, at addresses) *subscriber {
	t.Helper()
	return tr.start(t, &subscriber{name: name, filter: filter, qos: qos, at: at})
}

// roam is subscribe for a client that moves its session from address to address.
func (tr *traffic) roam(t testing.TB, name, filter string, qos byte, at addresses) *subscriber {
	t.Helper()
	return tr.start(t, &subscriber{name: name, filter: filter, qos: qos, at: at, roams: true})
}

func (tr *traffic) start(t testing.TB, r *subscriber) *subscriber {
	t.Helper()
	r.traffic, r.held, r.deliveries, r.next = tr, map[uint16]message{}, map[message]int{}, map[int]int{}
	r.ready, r.paused, r.resumed = make(chan struct{}), make(chan struct{}), make(chan struct{})
	tr.mu.Lock()
	tr.subscribers = append(tr.subscribers, r)
	tr.mu.Unlock()
	tr.clients.Go(r.run)
	select {
	case <-r.ready:
	case <-time.After(suite.HangLimit):
		t.Fatalf("%s is not subscribed", r.name)
	}
	return r
}

// disconnect disconnects it, so that messages are queued, until reconnect is called.
func (r *subscriber) disconnect() { close(r.paused) }
func (r *subscriber) reconnect()  { close(r.resumed) }

func (r *subscriber) run() {
	var old *link
	defer func() {
		if old != nil {
			old.Close()
		}
	}()
	for n := 0; r.ctx.Err() == nil; n++ {
		if isClosed(r.paused) && !isClosed(r.resumed) {
			select {
			case <-r.resumed:
			case <-r.ctx.Done():
				return
			}
		}
		l := r.connectFrom(n, r.name, r.at)
		if l == nil {
			return
		}
		r.mu.Lock()
		r.moves++
		r.mu.Unlock()
		if old != nil { // it has taken over its own connection
			old.Close()
			old = nil
		}
		switch err := r.serve(l); {
		case errors.Is(err, errMoves) && n%2 == 0:
			old = l
			continue
		case errors.Is(err, errWrong):
			r.report("%s: %v", r.name, err)
		}
		l.Close()
	}
}

// errMoves means that a client connects to another address, and roamEvery is the
// interval.
var errMoves = errors.New("the client moves")

const roamEvery = 150 * time.Millisecond

var errWrong = errors.New("a packet that must not come")

func (r *subscriber) serve(l *link) error {
	if !l.present {
		switch {
		case !isClosed(r.ready):
		case r.roams && r.allowDuplicates: // the node that has it does not respond
			r.mu.Lock()
			r.newSessions++
			r.mu.Unlock()
		default:
			r.report("%s: its session does not exist any more", r.name)
		}
		clear(r.held)
		code, err := l.subscribe(r.filter, r.qos)
		if err != nil {
			return err
		}
		if code != r.qos {
			return fmt.Errorf("%w: SUBACK %#x", errWrong, code)
		}
	}
	if !isClosed(r.ready) {
		close(r.ready)
	}
	for began := time.Now(); ; {
		if r.roams && time.Since(began) > roamEvery && !isClosed(r.finish) {
			return errMoves
		}
		if isClosed(r.paused) && !isClosed(r.resumed) {
			l.Out = packet.AppendEmpty(l.Out, packet.Disconnect)
			return l.Flush()
		}
		first, body, err := l.Next(time.Now().Add(4 * sendInterval))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.take(l, first, body); err != nil {
			return err
		}
		if !l.More() {
			if err := l.Flush(); err != nil {
				return err
			}
		}
	}
}

func (r *subscriber) take(l *link, first byte, body []byte) error {
	if first == packet.Pubrel {
		id := packet.ReadID(body)
		delete(r.held, id) // it may have been removed: PUBCOMP was lost
		l.Out = packet.AppendAck(l.Out, packet.Pubcomp, id)
		return nil
	}
	p, ok := packet.ReadPublish(first, body)
	m, known := readMessage(p.Payload)
	if packet.Kind(first) != packet.Publish || !ok || !known || string(p.Topic) != fmt.Sprintf("traffic/%d", m.publisher) {
		return fmt.Errorf("%w: %#x % x", errWrong, first, body[:min(len(body), 40)])
	}
	switch p.QoS {
	case 0:
		r.count(m)
	case 1:
		r.count(m)
		l.Out = packet.AppendAck(l.Out, packet.Puback, p.ID)
	case 2:
		held, again := r.held[p.ID]
		if !again {
			r.held[p.ID] = m
			r.count(m)
		} else if held != m || !p.Dup {
			r.report("%s got %v with id %d, dup %t, which %v still has", r.name, m, p.ID, p.Dup, held)
		}
		l.Out = packet.AppendAck(l.Out, packet.Pubrec, p.ID)
	}
	return nil
}

// count records a delivery. First deliveries must be consecutive, except while a
// session moves from a node that ends.
func (r *subscriber) count(m message) {
	r.mu.Lock()
	r.deliveries[m]++
	want := r.next[m.publisher]
	late := r.deliveries[m] == 1 && m.n != want
	r.next[m.publisher] = max(want, m.n+1)
	r.mu.Unlock()
	if late && r.ordered() && !(r.roams && r.allowDuplicates) {
		r.report("%s got message %d of sender %d while %d is due", r.name, m.n, m.publisher, want)
	}
}

// ordered reports whether it must receive all messages, in their order: not those of a
// shared subscription, and not those of QoS 0.
func (r *subscriber) ordered() bool { return r.filter[0] != '$' && r.qos > 0 }

// missing returns how many acknowledged messages were not delivered, and one of them.
func (r *subscriber) missing(all []publisherProgress) (n int, example message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range all {
		for i := range p.acknowledged {
			if m := (message{p.publisher, i}); r.deliveries[m] == 0 {
				n, example = n+1, m
			}
		}
	}
	return n, example
}

// awaitAll waits until all acknowledged messages are delivered, as long as there is
// progress.
func (r *subscriber) awaitAll(t testing.TB, all []publisherProgress) {
	t.Helper()
	n, m := r.missing(all)
	for last := n + 1; n > 0 && n < last; {
		last = n
		end := time.Now().Add(suite.HangLimit / 3)
		again := time.NewTicker(10 * sendInterval)
		for n == last && time.Now().Before(end) {
			<-again.C
			n, m = r.missing(all)
		}
		again.Stop()
	}
	if n > 0 {
		t.Errorf("%s lacks %d acknowledged messages, such as %v", r.name, n, m)
	}
}

// duplicates returns how many messages of QoS 2 were delivered more than once, and one
// of them.
func (r *subscriber) duplicates(all []publisherProgress) (n int, example message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for m, times := range r.deliveries {
		if times > 1 && min(r.qos, all[m.publisher].qos) == 2 {
			n, example = n+1, m
		}
	}
	return n, example
}

// publisherProgress is what a publisher has sent, and what was acknowledged.
type publisherProgress struct {
	publisher          int
	qos                byte
	sent, acknowledged int
	longest            time.Duration
}

func (tr *traffic) progress() (all []publisherProgress) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, s := range tr.publishers {
		all = append(all, publisherProgress{s.number, s.qos, s.sent, s.acknowledged, s.longest})
	}
	return all
}

// check ends the traffic: everything is acknowledged, and every subscriber has
// everything.
func (tr *traffic) check(t testing.TB) {
	t.Helper()
	close(tr.finish)
	done := make(chan struct{})
	go func() { tr.publishing.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(suite.HangLimit):
		t.Error("messages are not acknowledged")
	}
	all := tr.progress()
	count, longest := 0, time.Duration(0)
	for _, p := range all {
		count, longest = count+p.acknowledged, max(longest, p.longest)
	}
	for _, r := range tr.subscribers {
		r.mu.Lock()
		moves, anew := r.moves, r.newSessions
		r.mu.Unlock()
		if r.roams {
			t.Logf("%s connected %d times, %d times without its session, which was out of reach", r.name, moves, anew)
		}
		if r.ordered() && anew == 0 { // the queue of an unreachable session may be discarded
			r.awaitAll(t, all)
		}
		if n, m := r.duplicates(all); n > 0 {
			t.Logf("%s got %d messages of QoS 2 more than once, such as %v", r.name, n, m)
			if !tr.allowDuplicates {
				t.Errorf("%s must get them once", r.name)
			}
		}
	}
	tr.end()
	for _, c := range tr.violations {
		t.Error(c)
	}
	t.Logf("%d messages acknowledged to %d publishers and read by %d; longest time without an acknowledgement: %v",
		count, len(all), len(tr.subscribers), longest.Round(time.Millisecond))
}
