package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// document returns the payload of a message of a stream: JSON that identifies the
// message, with a value to sum, and of a length that depends on the message.
func (m message) document() []byte {
	return fmt.Appendf(nil, `{"p":%d,"n":%d,"v":%d,"text":%q}`, m.publisher, m.n, m.value(), filling[:m.n*37%len(filling)])
}

func (m message) value() int64 { return int64(m.n % 1000) }

var filling = strings.Repeat("signal box ", 28)

// bucketSize is the interval of the tally's buckets, in seconds: some of them
// end while the broker runs, and many continue after a restart.
const bucketSize = 10

// readDocument returns the message of a document. ok is false for a document that no
// publisher sends.
func readDocument(payload []byte) (m message, ok bool) {
	var d struct{ P, N int }
	if json.Unmarshal(payload, &d) != nil || d.P < 0 || d.N < 0 {
		return m, false
	}
	m = message{d.P, d.N}
	return m, bytes.Equal(payload, m.document())
}

// streamChecker checks what a stream has stored, in the order of a replay.
// Publishers send again in order, from the first message on that was not
// acknowledged; so the stream goes back only to what was sent again, and never
// leaves a message out.
type streamChecker struct {
	expected *expectedState
	stream   string
	count    int             // messages
	last     []int           // of each publisher, -1 for none
	highest  []int           // the latest one of each publisher
	repeated map[message]int // how often a message came after the first time
}

func newStreamChecker(l *expectedState, stream string) *streamChecker {
	h := &streamChecker{expected: l, stream: stream, repeated: map[message]int{}}
	for range l.qos {
		h.last, h.highest = append(h.last, -1), append(h.highest, -1)
	}
	return h
}

// add checks the next message.
func (h *streamChecker) add(m message) {
	h.count++
	if sent := h.expected.sentUpTo(); m.publisher >= len(sent) || m.n >= sent[m.publisher] {
		h.expected.report("stream %s holds %v, which no publisher sent", h.stream, m)
		return
	}
	if last := h.last[m.publisher]; m.n > last+1 {
		h.expected.report("stream %s holds %v after message %d", h.stream, m, last)
	}
	if m.n <= h.highest[m.publisher] {
		h.repeated[m]++
		if again := h.expected.resendCount(m); h.repeated[m] > again {
			h.expected.report("stream %s holds %v %d times, though it was sent %d times", h.stream, m, 1+h.repeated[m], 1+again)
		}
	}
	h.last[m.publisher] = m.n
	h.highest[m.publisher] = max(h.highest[m.publisher], m.n)
}

// finish checks the end, when everything that was sent is acknowledged. count is
// the number of messages that the broker reports for the stream.
func (h *streamChecker) finish(count int) {
	for p := range h.highest {
		if acked, _ := h.expected.progress(p); h.highest[p] != acked-1 {
			h.expected.report("stream %s ends with message %d of publisher %d, and %d are acknowledged", h.stream, h.highest[p], p, acked)
		}
	}
	if h.count != count {
		h.expected.report("stream %s holds %d messages and the broker reports %d", h.stream, h.count, count)
	}
}

// tally is what the stream of that name stores for a message: what identifies it, and
// the count and the sum of its bucket up to it.
type tally struct {
	P      int   `json:"p"`
	N      int   `json:"n"`
	Count  int64 `json:"count"`
	Sum    int64 `json:"sum"`
	Bucket int64 `json:"bucket"`
}

// aggregateChecker checks the tallies of a stream: each continues the one before
// it, whichever life of the broker that was in.
type aggregateChecker struct {
	*streamChecker
	before  tally
	buckets int
}

func (r *aggregateChecker) add(t tally) {
	m := message{t.P, t.N}
	want := tally{P: t.P, N: t.N, Count: r.before.Count + 1, Sum: r.before.Sum + m.value(), Bucket: r.before.Bucket}
	if t.Bucket > r.before.Bucket {
		want.Count, want.Sum, want.Bucket = 1, m.value(), t.Bucket
		r.buckets++
	}
	if t != want || t.Bucket%bucketSize != 0 {
		r.expected.report("stream %s holds %+v after %+v instead of %+v", r.stream, t, r.before, want)
	}
	r.before = t
	r.streamChecker.add(m)
}
