package crash

import (
	"fmt"
	"sync"
)

// message names an application message: the n-th of a publisher, from 0.
type message struct{ publisher, n int }

// ledger is what all clients together know about a broker, and what they
// complain about.
type ledger struct {
	mu         sync.Mutex
	now        int64           // counts events, as a clock
	qos        []byte          // of each publisher
	keeper     int             // the publisher of retained messages, which no subscriber gets
	sent       []int           // messages of each publisher that may have reached the broker
	again      map[message]int // how often a message was sent after the first time
	acked      []int           // messages of each publisher that are acknowledged to the end
	committed  map[int]int64   // for each life: when the latest message was sent that was acknowledged in it
	complaints []string
	dropped    int  // complaints beyond those kept
	disorderly bool // it is known that the broker changes the order; nobody complains of that
}

// newLedger is for publishers of these QoS, the last of which is the keeper.
func newLedger(qos ...byte) *ledger {
	return &ledger{qos: qos, keeper: len(qos) - 1, sent: make([]int, len(qos)), acked: make([]int, len(qos)),
		committed: map[int]int64{}, again: map[message]int{}}
}

// tick gives a time that is later than all before it.
func (l *ledger) tick() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	return l.now
}

// sending notes that a message is about to be sent, maybe again.
func (l *ledger) sending(m message) (at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.n < l.sent[m.publisher] {
		l.again[m]++
	}
	l.sent[m.publisher] = max(l.sent[m.publisher], m.n+1)
	l.now++
	return l.now
}

// acknowledged notes that the broker took a message over in that life, which
// was sent in the same life at that time.
func (l *ledger) acknowledged(life int, sent int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed[life] = max(l.committed[life], sent)
}

// finished notes that a publisher needs not know about a message any more.
func (l *ledger) finished(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[m.publisher] = m.n + 1
}

// mayBeTwo tells whether a message was sent more than once, and every time as if
// for the first: those of QoS 1, so that the broker may take them for new ones
// [MQTT-4.3.2].
func (l *ledger) mayBeTwo(m message) bool { return l.qos[m.publisher] == 1 && l.sentAgain(m) > 0 }

// sentAgain is how often a message was sent after the first time.
func (l *ledger) sentAgain(m message) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again[m]
}

// wasCommitted tells whether what the broker had dealt with in that life, at
// that time, surely survived it: something later did.
func (l *ledger) wasCommitted(life int, at int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed[life] > at
}

// sentUpTo is how many messages each publisher has sent so far.
func (l *ledger) sentUpTo() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.sent...)
}

// extent is how many of a publisher's messages are acknowledged, and sent.
func (l *ledger) extent(publisher int) (acked, sent int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[publisher], l.sent[publisher]
}

// acknowledgedInAll is how many messages are acknowledged to the end.
func (l *ledger) acknowledgedInAll() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sum(l.acked)
}

// complain notes what the broker did wrong. The first complaints tell the most.
func (l *ledger) complain(format string, args ...any) {
	const most = 25
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.complaints) == most {
		l.dropped++
		return
	}
	l.complaints = append(l.complaints, fmt.Sprintf(format, args...))
}

// complainOfOrder complains, unless the broker is known for it.
func (l *ledger) complainOfOrder(format string, args ...any) {
	if !l.disorderly {
		l.complain(format, args...)
	}
}

func (l *ledger) complained() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := append([]string(nil), l.complaints...)
	if l.dropped > 0 {
		list = append(list, fmt.Sprintf("and %d more", l.dropped))
	}
	return list
}
