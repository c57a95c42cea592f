package crash

import (
	"strings"
	"testing"
)

// TestStreamChecker_reports shows which stored messages are violations: each case is
// what was stored of publisher 1, which has sent the messages 0 to 5, all of which
// are acknowledged, 2 and 3 of them twice.
func TestStreamChecker_reports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		came  []int
		count int // what the broker reports
		want  string
	}{
		"all of them":                       {[]int{0, 1, 2, 3, 4, 5}, 6, ""},
		"those that were sent again, again": {[]int{0, 1, 2, 3, 2, 3, 4, 5}, 8, ""},
		"some of them":                      {[]int{0, 1, 2, 3, 3, 4, 5}, 7, ""},
		"one is missing":                    {[]int{0, 1, 2, 4, 5}, 5, "holds {1 4} after message 2"},
		"the first is missing":              {[]int{1, 2, 3, 4, 5}, 5, "holds {1 1} after message -1"},
		"the last is missing":               {[]int{0, 1, 2, 3, 4}, 5, "ends with message 4 of publisher 1, and 6 are"},
		"one that was not sent":             {[]int{0, 1, 2, 3, 4, 5, 6}, 7, "which no publisher sent"},
		"one twice":                         {[]int{0, 1, 1, 2, 3, 4, 5}, 7, "holds {1 1} 2 times, though it was sent 1 times"},
		"one three times":                   {[]int{0, 1, 2, 3, 3, 3, 4, 5}, 8, "holds {1 3} 3 times, though it was sent 2 times"},
		"a gap after going back":            {[]int{0, 1, 2, 3, 2, 4, 5}, 7, "holds {1 4} after message 2"},
		"another count":                     {[]int{0, 1, 2, 3, 4, 5}, 7, "holds 6 messages and the broker reports 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newStreamChecker(sentSix(), "s")
			for _, n := range c.came {
				h.add(message{1, n})
			}
			h.finish(c.count)
			wantViolation(t, h.expected, c.want)
		})
	}
}

// TestAggregateChecker_reports shows which tallies are violations.
func TestAggregateChecker_reports(t *testing.T) {
	t.Parallel()
	one := func(n int, bucket, count, sum int64) tally {
		return tally{P: 1, N: n, Bucket: bucket, Count: count, Sum: sum}
	}
	for name, c := range map[string]struct {
		came []tally
		want string
	}{
		"one bucket":                 {[]tally{one(0, 10, 1, 0), one(1, 10, 2, 1), one(2, 10, 3, 3)}, ""},
		"a new bucket":               {[]tally{one(0, 10, 1, 0), one(1, 10, 2, 1), one(2, 40, 1, 2), one(3, 40, 2, 5)}, ""},
		"a bucket that begins anew":  {[]tally{one(0, 10, 1, 0), one(1, 10, 2, 1), one(2, 10, 1, 2)}, "instead of {P:1 N:2 Count:3 Sum:3 Bucket:10}"},
		"a count that leaves one":    {[]tally{one(0, 10, 1, 0), one(1, 10, 3, 1)}, "instead of {P:1 N:1 Count:2"},
		"a sum that leaves one":      {[]tally{one(0, 10, 1, 0), one(1, 10, 2, 1), one(2, 10, 3, 2)}, "Sum:3"},
		"a new bucket that goes on":  {[]tally{one(0, 10, 1, 0), one(1, 20, 2, 1)}, "instead of {P:1 N:1 Count:1"},
		"an earlier bucket":          {[]tally{one(0, 20, 1, 0), one(1, 10, 2, 1)}, "Bucket:20}"},
		"no bucket":                  {[]tally{one(0, 15, 1, 0)}, "Bucket:15"},
		"a message that is left out": {[]tally{one(0, 10, 1, 0), one(2, 10, 2, 2)}, "holds {1 2} after message 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &aggregateChecker{streamChecker: newStreamChecker(sentSix(), "s")}
			for _, one := range c.came {
				r.add(one)
			}
			wantViolation(t, r.expected, c.want)
		})
	}
}

// sentSix returns the expected state of the cases.
func sentSix() *expectedState {
	l := newExpectedState(1, 2)
	for n := range 6 {
		l.sending(message{1, n})
		l.completed(message{1, n})
	}
	l.sending(message{1, 2})
	l.sending(message{1, 3})
	return l
}

func wantViolation(t *testing.T, l *expectedState, want string) {
	t.Helper()
	all := strings.Join(l.reported(), "\n")
	if all == "" && want != "" || want == "" && all != "" || !strings.Contains(all, want) {
		t.Errorf("got the violation %q, want %q", all, want)
	}
}

func TestReadDocument(t *testing.T) {
	t.Parallel()
	for _, m := range []message{{0, 0}, {3, 7}, {1, 123456}} {
		if got, ok := readDocument(m.document()); got != m || !ok {
			t.Errorf("got %v %t, want %v", got, ok, m)
		}
		changed := strings.Replace(string(m.document()), `"v":`, `"v":1`, 1)
		if _, ok := readDocument([]byte(changed)); ok {
			t.Errorf("%v is accepted after a change", m)
		}
	}
	if _, ok := readDocument([]byte("{")); ok {
		t.Error("half of an object is a document")
	}
}
