package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// document is what a message of a stream carries: JSON with its name, a value
// that can be summed up, and a length of its own.
func (m message) document() []byte {
	return fmt.Appendf(nil, `{"p":%d,"n":%d,"v":%d,"text":%q}`, m.publisher, m.n, m.value(), filling[:m.n*37%len(filling)])
}

func (m message) value() int64 { return int64(m.n % 1000) }

var filling = strings.Repeat("signal box ", 28)

// bucketSize is the interval of the tally's buckets, in seconds: some of them
// end while the broker runs, and many outlive it.
const bucketSize = 10

// readDocument tells which message a document is. It is not ok for one that
// nobody makes.
func readDocument(payload []byte) (m message, ok bool) {
	var d struct{ P, N int }
	if json.Unmarshal(payload, &d) != nil || d.P < 0 || d.N < 0 {
		return m, false
	}
	m = message{d.P, d.N}
	return m, bytes.Equal(payload, m.document())
}

// harvest judges what a stream has kept, in the order in which a replay gives
// it. Publishers send again in order, from the first message on that was not
// acknowledged; so the stream goes back only to what was sent again, and never
// leaves a message out.
type harvest struct {
	ledger *ledger
	stream string
	taken  int             // messages
	last   []int           // of each publisher, -1 for none
	most   []int           // the latest one of each publisher
	twice  map[message]int // how often a message came after the first time
}

func newHarvest(l *ledger, stream string) *harvest {
	h := &harvest{ledger: l, stream: stream, twice: map[message]int{}}
	for range l.qos {
		h.last, h.most = append(h.last, -1), append(h.most, -1)
	}
	return h
}

// take judges the next message.
func (h *harvest) take(m message) {
	h.taken++
	if sent := h.ledger.sentUpTo(); m.publisher >= len(sent) || m.n >= sent[m.publisher] {
		h.ledger.complain("stream %s holds %v, which nobody sent", h.stream, m)
		return
	}
	if last := h.last[m.publisher]; m.n > last+1 {
		h.ledger.complain("stream %s holds %v after message %d", h.stream, m, last)
	}
	if m.n <= h.most[m.publisher] {
		h.twice[m]++
		if again := h.ledger.sentAgain(m); h.twice[m] > again {
			h.ledger.complain("stream %s holds %v %d times, though it was sent %d times", h.stream, m, 1+h.twice[m], 1+again)
		}
	}
	h.last[m.publisher] = m.n
	h.most[m.publisher] = max(h.most[m.publisher], m.n)
}

// finish judges the end, when everything that was sent is acknowledged. Count is
// how much the broker says that the stream keeps.
func (h *harvest) finish(count int) {
	for p := range h.most {
		if acked, _ := h.ledger.extent(p); h.most[p] != acked-1 {
			h.ledger.complain("stream %s ends with message %d of publisher %d, and %d are acknowledged", h.stream, h.most[p], p, acked)
		}
	}
	if h.taken != count {
		h.ledger.complain("stream %s holds %d messages and says that it holds %d", h.stream, h.taken, count)
	}
}

// tally is what the stream of that name makes of a message: its name, and the
// count and the sum of its bucket up to it.
type tally struct {
	P      int   `json:"p"`
	N      int   `json:"n"`
	Count  int64 `json:"count"`
	Sum    int64 `json:"sum"`
	Bucket int64 `json:"bucket"`
}

// reckoning judges the tallies of a harvest: each goes on from the one before
// it, whichever life of the broker that was in.
type reckoning struct {
	*harvest
	before  tally
	buckets int
}

func (r *reckoning) take(t tally) {
	m := message{t.P, t.N}
	want := tally{P: t.P, N: t.N, Count: r.before.Count + 1, Sum: r.before.Sum + m.value(), Bucket: r.before.Bucket}
	if t.Bucket > r.before.Bucket {
		want.Count, want.Sum, want.Bucket = 1, m.value(), t.Bucket
		r.buckets++
	}
	if t != want || t.Bucket%bucketSize != 0 {
		r.ledger.complain("stream %s holds %+v after %+v instead of %+v", r.stream, t, r.before, want)
	}
	r.before = t
	r.harvest.take(m)
}
