//go:build linux

package load

import (
	"sync"
	"time"
)

// mostTimed exceeds the number of messages of one publisher that wait for their
// acknowledgements at the rates of the loads.
const mostTimed = 1 << 12

// ackTimes measures how long a publisher waits for its acknowledgements. A nil pointer
// measures nothing.
type ackTimes struct {
	mu    sync.Mutex // protects what follows
	began [mostTimed]time.Time
	took  []time.Duration
}

// sent records the time at which a message is sent.
func (a *ackTimes) sent(seq int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.began[seq%mostTimed] = time.Now()
}

// acked records that its acknowledgement has arrived.
func (a *ackTimes) acked(seq int64) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took = append(a.took, time.Since(a.began[seq%mostTimed]))
}

// take returns the measured times and deletes them.
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
