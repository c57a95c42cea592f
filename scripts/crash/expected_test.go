package crash

import (
	"fmt"
	"sync"
)

// message identifies an application message: the n-th of a publisher, from 0.
type message struct{ publisher, n int }

// expectedState is what all clients together know about a broker, and the violations
// that they have found.
type expectedState struct {
	mu                sync.Mutex
	now               int64           // counts events, as a clock
	qos               []byte          // of each publisher
	retainedPublisher int             // the publisher of retained messages, which no subscriber gets
	sent              []int           // messages of each publisher that may have reached the broker
	resent            map[message]int // how often a message was sent after the first time
	acked             []int           // messages of each publisher whose handshake is complete
	committed         map[int]int64   // for each life: when the latest message was sent that was acknowledged in it
	violations        []string
	dropped           int  // violations beyond those kept
	ignoreOrder       bool // the broker is known to change the order, which is not reported
}

// newExpectedState is for publishers of these QoS, the last of which sends retained
// messages.
func newExpectedState(qos ...byte) *expectedState {
	return &expectedState{qos: qos, retainedPublisher: len(qos) - 1, sent: make([]int, len(qos)), acked: make([]int, len(qos)),
		committed: map[int]int64{}, resent: map[message]int{}}
}

// tick returns a time that is later than all before it.
func (l *expectedState) tick() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
	return l.now
}

// sending notes that a message is about to be sent, maybe again.
func (l *expectedState) sending(m message) (at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.n < l.sent[m.publisher] {
		l.resent[m]++
	}
	l.sent[m.publisher] = max(l.sent[m.publisher], m.n+1)
	l.now++
	return l.now
}

// acknowledged notes that the broker acknowledged a message in that life, which
// was sent in the same life at that time.
func (l *expectedState) acknowledged(life int, sent int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed[life] = max(l.committed[life], sent)
}

// completed notes that the handshake of a message is complete.
func (l *expectedState) completed(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[m.publisher] = m.n + 1
}

// mayBeDuplicated reports whether a message was sent more than once, and every time as if
// for the first: those of QoS 1, so that the broker may take them for new ones
// [MQTT-4.3.2].
func (l *expectedState) mayBeDuplicated(m message) bool {
	return l.qos[m.publisher] == 1 && l.resendCount(m) > 0
}

// resendCount returns how often a message was sent after the first time.
func (l *expectedState) resendCount(m message) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resent[m]
}

// wasCommitted reports whether what the broker had processed in that life, at
// that time, surely survived it: something later did.
func (l *expectedState) wasCommitted(life int, at int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.committed[life] > at
}

// sentUpTo returns how many messages each publisher has sent so far.
func (l *expectedState) sentUpTo() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]int(nil), l.sent...)
}

// progress returns how many of a publisher's messages are acknowledged, and sent.
func (l *expectedState) progress(publisher int) (acked, sent int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[publisher], l.sent[publisher]
}

// acknowledgedInAll returns how many handshakes are complete.
func (l *expectedState) acknowledgedInAll() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sum(l.acked)
}

// report notes a violation. The first ones explain the most.
func (l *expectedState) report(format string, args ...any) {
	const most = 25
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.violations) == most {
		l.dropped++
		return
	}
	l.violations = append(l.violations, fmt.Sprintf(format, args...))
}

// reportOrder reports a violation of the order, unless the broker is known for it.
func (l *expectedState) reportOrder(format string, args ...any) {
	if !l.ignoreOrder {
		l.report(format, args...)
	}
}

func (l *expectedState) reported() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := append([]string(nil), l.violations...)
	if l.dropped > 0 {
		list = append(list, fmt.Sprintf("and %d more", l.dropped))
	}
	return list
}
