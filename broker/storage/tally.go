package storage

import "time"

// tallyInterval is how often a Tally is logged at most.
const tallyInterval = time.Minute

// Tally sums up what is logged now and then. The zero value is one of nothing.
type Tally struct {
	n    int64
	last time.Time
}

// Add adds to the sum. It returns the sum and begins anew where that is to be logged,
// and otherwise 0.
func (t *Tally) Add(n int64, now func() time.Time) int64 {
	if t.n += n; t.n == 0 {
		return 0
	}
	at := now()
	if !t.last.IsZero() && at.Sub(t.last) < tallyInterval {
		return 0
	}
	n, t.n, t.last = t.n, 0, at
	return n
}
