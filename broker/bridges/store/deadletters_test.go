package store

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
)

// deadLetters returns a page of the dead letters.
func deadLetters(t testing.TB, q *Queue, offset, count, wantTotal int) (list []broker.DeadLetter) {
	t.Helper()
	total, list, err := q.DeadLetters(t.Context(), offset, count)
	must(t, err)
	if total != wantTotal {
		t.Errorf("there are %d dead letters, want %d", total, wantTotal)
	}
	return list
}

// payloads returns the payloads of dead letters.
func payloads(list []broker.DeadLetter) (all []string) {
	for _, d := range list {
		all = append(all, strings.TrimPrefix(d.Payload, "payload "))
	}
	return all
}

// TestDeadLetters stores rejected entries and lists them.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 10)
	binary := entry(10)
	binary.Payload, binary.QoS = append([]byte{0xff}, make([]byte, 2000)...), 2
	must(t, <-putAsync(t, q, binary))
	reject(t, q, "the table has no column \"x\xff\"", 3)
	reject(t, q, strings.Repeat("long ", 1000), 10, 5)
	must(t, q.Reject(t.Context(), []bridges.Rejection{{ID: 3}, {ID: 77}}), q.Reject(t.Context(), nil)) // 3 was rejected before, 77 does not exist
	s = reopen(t, s, Options{})
	q = queueOf(t, s, "c", wide)
	wantHeld(t, q, 1, 2, 4, 6, 7, 8, 9)
	list := deadLetters(t, q, 0, 10, 3)
	want := broker.DeadLetter{
		ID: "3", Topic: "t/1", Payload: "payload 3", Size: 9, Mapping: "m", Attempts: 3, Reason: `the table has no column "x"`,
		ReceivedAt: time.UnixMilli(3).UTC(), RejectedAt: time.UnixMilli(5000).UTC(),
	}
	if diff := cmp.Diff(want, list[0]); diff != "" {
		t.Errorf("the first one (-want +got):\n%s", diff)
	}
	if d := list[2]; d.Encoding != broker.EncodingBase64 || !d.Truncated || d.Size != 2001 || d.QoS != 2 || len(d.Reason) != maxReason {
		t.Errorf("the last one is %+v", d)
	}
	if got := payloads(deadLetters(t, q, 1, 1, 3)); !cmp.Equal(got, []string{"5"}) {
		t.Errorf("the second one is %v", got)
	}
	deadLetters(t, q, 5, 10, 3)
	deadLetters(t, q, -1, -1, 3)
	checkStore(t, s)
}

// TestRetryDeadLetters checks that retried dead letters keep their identity.
func TestRetryDeadLetters(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 10)
	third := peek(t, q, 0)[2]
	reject(t, q, "no", 3, 4, 5, 6)
	n, err := q.RetryDeadLetters(t.Context(), []string{"3", "5", "77", "none", "3"})
	must(t, err)
	if n != 2 {
		t.Errorf("put back %d, want 2", n)
	}
	wantHeld(t, q, 1, 2, 7, 8, 9, 3, 5)
	reject(t, q, "no again", 3)
	s = reopen(t, s, Options{})
	q = queueOf(t, s, "c", wide)
	if n, err := q.RetryDeadLetters(t.Context(), nil); n != 3 || err != nil {
		t.Errorf("put back %d (%v), want 3", n, err)
	}
	wantHeld(t, q, 1, 2, 7, 8, 9, 5, 4, 6, 3)
	list := peek(t, q, 0)
	last := list[len(list)-1]
	if last.MessageID != third.MessageID || last.ID == third.ID || last.Attempts != 0 || last.MessageID == list[0].MessageID {
		t.Errorf("was %s (%d), is %s (%d, %d attempts)", third.MessageID, third.ID, last.MessageID, last.ID, last.Attempts)
	}
	deadLetters(t, q, 0, 10, 0)
	checkStore(t, s)
}

// TestRetryIntoFullQueue checks that dead letters that do not fit stay, and that none are
// evicted.
func TestRetryIntoFullQueue(t *testing.T) {
	t.Parallel()
	for _, oldest := range []bool{false, true} {
		s := fresh(t, Options{})
		q := onlyQueue(t, s, bridges.Bounds{Messages: 5, DeadLetters: 10, DropOldest: oldest})
		putAll(t, q, 1, 6)
		reject(t, q, "no", 1, 2, 3)
		putAll(t, q, 6, 8)
		if n, err := q.RetryDeadLetters(t.Context(), nil); n != 1 || err != nil {
			t.Errorf("put back %d (%v), want 1", n, err)
		}
		wantHeld(t, q, 4, 5, 6, 7, 1)
		if got := payloads(deadLetters(t, q, 0, 10, 2)); !cmp.Equal(got, []string{"2", "3"}) {
			t.Errorf("left are %v", got)
		}
		checkStore(t, s)
	}
}

// TestDeleteDeadLetters deletes some or all.
func TestDeleteDeadLetters(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 10)
	reject(t, q, "no", upTo(1, 8)...)
	for _, c := range []struct {
		ids  []string
		want int
	}{{[]string{"2", "4", "4", "x", "-1", "9"}, 2}, {nil, 5}, {nil, 0}} {
		if n, err := q.DeleteDeadLetters(t.Context(), c.ids); n != c.want || err != nil {
			t.Errorf("deleted %d of %v (%v), want %d", n, c.ids, err, c.want)
		}
	}
	wantHeld(t, q, 8, 9)
	deadLetters(t, q, 0, 10, 0)
	checkStore(t, s)
}

// TestManyDeadLetters handles more than one portion.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	q := onlyQueue(t, s, bridges.Bounds{DeadLetters: 5000})
	putAll(t, q, 1, 701)
	reject(t, q, "no", upTo(1, 701)...)
	if n, err := q.RetryDeadLetters(t.Context(), nil); n != 700 || err != nil {
		t.Errorf("put back %d (%v)", n, err)
	}
	wantHeld(t, q, upTo(1, 701)...)
	reject(t, q, "no", upTo(1, 701)...)
	if n, err := q.DeleteDeadLetters(t.Context(), nil); n != 700 || err != nil {
		t.Errorf("deleted %d (%v)", n, err)
	}
	wantNothing(t, q)
	checkStore(t, s)
}

// TestDeadLetterBounds drops the oldest, or stores none.
func TestDeadLetterBounds(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	connect(t, s, "few", "none", "small")
	few, none := queueOf(t, s, "few", bridges.Bounds{DeadLetters: 3}), queueOf(t, s, "none", bridges.Bounds{})
	small := queueOf(t, s, "small", bridges.Bounds{DeadLetters: 100, Bytes: 1000})
	for n := range 10 {
		for _, q := range []*Queue{few, none, small} {
			must(t, <-putAsync(t, q, sized(n, 200)))
			reject(t, q, "", n)
		}
	}
	for q, want := range map[*Queue]int64{few: 3, none: 0, small: 5} {
		u := q.Usage()
		if u.DeadLetters != want || u.LostDeadLetters != 10-want || u.Messages != 0 {
			t.Errorf("usage is %+v, want %d dead letters", u, want)
		}
		for _, d := range deadLetters(t, q, 0, 10, int(want)) {
			if d.ReceivedAt.UnixMilli() < 10-want {
				t.Errorf("kept %v of those that are not the newest", d.ReceivedAt)
			}
		}
	}
	checkStore(t, s)
}
