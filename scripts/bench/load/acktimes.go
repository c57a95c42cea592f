//go:build linux

package load

import (
	"sync"
	"time"
)

// mostTimed is more messages of one publisher than wait for their acknowledgements
// at the rates of loads.
const mostTimed = 1 << 12

// ackTimes times what a publisher waits for its acknowledgements. Nil times
// nothing.
type ackTimes struct {
	mu    sync.Mutex // guards what follows
	began [mostTimed]time.Time
	took  []time.Duration
}

// sent notes when a message goes.
func (a *ackTimes) sent(seq int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began[seq%mostTimed] = time.Now()
}

// acked notes that its acknowledgement came.
func (a *ackTimes) acked(seq int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, time.Since(a.began[seq%mostTimed]))
}

// take returns and forgets what was measured.
func (a *ackTimes) take() []time.Duration {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	took := a.took
	a.took = nil
	return took
}
