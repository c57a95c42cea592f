package systemtest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// reader is a client whose session is kept over all connections, with the
// identifiers of QoS 2 messages between PUBREC and PUBREL [MQTT-4.3.3].
type reader struct {
	*traffic
	name   string
	filter string
	qos    byte
	at     places
	roams  bool // from place to place, now and then
	held   map[uint16]note

	mu    sync.Mutex   // guards the fields below
	came  map[note]int // how often
	first map[int]int  // by publisher: what is to come for the first time
	moves int          // connections so far
	anew  int          // sessions that it had to begin while the one before was out of reach

	ready   chan struct{} // closed when it is subscribed
	paused  chan struct{} // closed when it is to stay away
	resumed chan struct{} // closed when it may come back
}

// read has one more client read, and waits until it is subscribed.
func (tr *traffic) read(t testing.TB, name, filter string, qos byte, at places) *reader {
	t.Helper()
	return tr.start(t, &reader{name: name, filter: filter, qos: qos, at: at})
}

// roam is read for a client that takes its session from place to place.
func (tr *traffic) roam(t testing.TB, name, filter string, qos byte, at places) *reader {
	t.Helper()
	return tr.start(t, &reader{name: name, filter: filter, qos: qos, at: at, roams: true})
}

func (tr *traffic) start(t testing.TB, r *reader) *reader {
	t.Helper()
	r.traffic, r.held, r.came, r.first = tr, map[uint16]note{}, map[note]int{}, map[int]int{}
	r.ready, r.paused, r.resumed = make(chan struct{}), make(chan struct{}), make(chan struct{})
	tr.mu.Lock()
	tr.readers = append(tr.readers, r)
	tr.mu.Unlock()
	tr.clients.Go(r.run)
	select {
	case <-r.ready:
	case <-time.After(suite.HangLimit):
		t.Fatalf("%s is not subscribed", r.name)
	}
	return r
}

// leave has it disconnect, so that messages wait for it, until back is called.
func (r *reader) leave() { close(r.paused) }
func (r *reader) back()  { close(r.resumed) }

func (r *reader) run() {
	var old *link
	defer func() {
		if old != nil {
			old.close()
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
		if old != nil { // it has taken over from itself
			old.close()
			old = nil
		}
		switch err := r.serve(l); {
		case errors.Is(err, errMoves) && n%2 == 0:
			old = l
			continue
		case errors.Is(err, errWrong):
			r.complain("%s: %v", r.name, err)
		}
		l.close()
	}
}

// errMoves is that a client goes to another place, and roamEvery how often it does.
var errMoves = errors.New("the client moves")

const roamEvery = 150 * time.Millisecond

var errWrong = errors.New("a packet that must not come")

func (r *reader) serve(l *link) error {
	if !l.present {
		switch {
		case !isClosed(r.ready):
		case r.roams && r.again: // the node that has it does not answer
			r.mu.Lock()
			r.anew++
			r.mu.Unlock()
		default:
			r.complain("%s: its session is gone", r.name)
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
			l.out = packet.AppendEmpty(l.out, packet.Disconnect)
			return l.flush()
		}
		first, body, err := l.next(time.Now().Add(4 * beat))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return err
		}
		if err := r.take(l, first, body); err != nil {
			return err
		}
		if !l.in.More() {
			if err := l.flush(); err != nil {
				return err
			}
		}
	}
}

func (r *reader) take(l *link, first byte, body []byte) error {
	if first == packet.Pubrel {
		id := packet.ReadID(body)
		delete(r.held, id) // it may be gone: PUBCOMP got lost
		l.out = packet.AppendAck(l.out, packet.Pubcomp, id)
		return nil
	}
	p, ok := packet.ReadPublish(first, body)
	m, known := readNote(p.Payload)
	if packet.Kind(first) != packet.Publish || !ok || !known || string(p.Topic) != fmt.Sprintf("traffic/%d", m.publisher) {
		return fmt.Errorf("%w: %#x % x", errWrong, first, body[:min(len(body), 40)])
	}
	switch p.QoS {
	case 0:
		r.count(m)
	case 1:
		r.count(m)
		l.out = packet.AppendAck(l.out, packet.Puback, p.ID)
	case 2:
		held, again := r.held[p.ID]
		if !again {
			r.held[p.ID] = m
			r.count(m)
		} else if held != m || !p.Dup {
			r.complain("%s got %v with id %d, dup %t, which %v still has", r.name, m, p.ID, p.Dup, held)
		}
		l.out = packet.AppendAck(l.out, packet.Pubrec, p.ID)
	}
	return nil
}

// count notes an arrival. What comes for the first time must follow what came
// before, but where a session is on its way from node to node while one ends.
func (r *reader) count(m note) {
	r.mu.Lock()
	r.came[m]++
	want := r.first[m.publisher]
	late := r.came[m] == 1 && m.n != want
	r.first[m.publisher] = max(want, m.n+1)
	r.mu.Unlock()
	if late && r.ordered() && !(r.roams && r.again) {
		r.complain("%s got message %d of sender %d while %d is due", r.name, m.n, m.publisher, want)
	}
}

// ordered tells whether it gets all messages, in their order: not one of a shared
// subscription, and not one of QoS 0, which may lose.
func (r *reader) ordered() bool { return r.filter[0] != '$' && r.qos > 0 }

// missing counts the acknowledged messages that have not come, and gives one.
func (r *reader) missing(all []promise) (n int, example note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range all {
		for i := range p.done {
			if m := (note{p.publisher, i}); r.came[m] == 0 {
				n, example = n+1, m
			}
		}
	}
	return n, example
}

// wantAll waits until all that was acknowledged has come, as long as more comes.
func (r *reader) wantAll(t testing.TB, all []promise) {
	t.Helper()
	n, m := r.missing(all)
	for last := n + 1; n > 0 && n < last; {
		last = n
		end := time.Now().Add(suite.HangLimit / 3)
		again := time.NewTicker(10 * beat)
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

// doubled counts the messages of QoS 2 that came more than once, and gives one.
func (r *reader) doubled(all []promise) (n int, example note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for m, times := range r.came {
		if times > 1 && min(r.qos, all[m.publisher].qos) == 2 {
			n, example = n+1, m
		}
	}
	return n, example
}

// promise is what a publisher was promised.
type promise struct {
	publisher  int
	qos        byte
	sent, done int
	longest    time.Duration
}

func (tr *traffic) promises() (all []promise) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, s := range tr.publishers {
		all = append(all, promise{s.number, s.qos, s.sent, s.done, s.longest})
	}
	return all
}

// judge ends the traffic: all is acknowledged, and everybody has got everything.
func (tr *traffic) judge(t testing.TB) {
	t.Helper()
	close(tr.finish)
	done := make(chan struct{})
	go func() { tr.publishing.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(suite.HangLimit):
		t.Error("messages are not acknowledged")
	}
	all := tr.promises()
	count, longest := 0, time.Duration(0)
	for _, p := range all {
		count, longest = count+p.done, max(longest, p.longest)
	}
	for _, r := range tr.readers {
		r.mu.Lock()
		moves, anew := r.moves, r.anew
		r.mu.Unlock()
		if r.roams {
			t.Logf("%s connected %d times, %d times without its session, which was out of reach", r.name, moves, anew)
		}
		if r.ordered() && anew == 0 { // what waited in a session that is out of reach may be given up
			r.wantAll(t, all)
		}
		if n, m := r.doubled(all); n > 0 {
			t.Logf("%s got %d messages of QoS 2 more than once, such as %v", r.name, n, m)
			if !tr.again {
				t.Errorf("%s must get them once", r.name)
			}
		}
	}
	tr.end()
	for _, c := range tr.complaints {
		t.Error(c)
	}
	t.Logf("%d messages acknowledged to %d publishers and read by %d; longest time without an acknowledgement: %v",
		count, len(all), len(tr.readers), longest.Round(time.Millisecond))
}
