package storage

import "time"

// tallyInterval is the shortest time between two logs of a Tally.
const tallyInterval = time.Minute

// Tally is a counter that is logged at a limited rate. The zero value is ready
// to use.
type Tally struct {
	n    int64
	last time.Time
}

// Add adds to the counter. If it is to be logged, Add returns the sum and
// resets it, and otherwise 0.
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
