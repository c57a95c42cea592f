package engine

import (
	"errors"
	"fmt"
	"math"
)

// DropUnconfirmed drops what the log has not delivered, as if its time was over.
func (e *Engine) DropUnconfirmed() {
	e.retained.mu.Lock()
	e.retained.now = func() int64 { return math.MaxInt64 }
	e.retained.mu.Unlock()
	e.retained.dropUnconfirmed()
}

// QueuedMemory returns the bytes of queues in memory, above the minimum of each.
func (e *Engine) QueuedMemory() int64 { return e.queuedMemory.Load() }

// Audit recounts everything that is counted incrementally, and returns the differences.
func (e *Engine) Audit() error {
	var total int64
	var wrong []error
	for _, s := range e.all() {
		s.mu.Lock()
		counted := memory{}
		bytes, live := int64(0), 0
		for entry := range s.out.all() {
			counted.added(entry)
			bytes += int64(entry.size)
			live++
		}
		for i := range s.out.qos0.len() {
			bytes += int64(s.out.qos0.at(i).message.size())
		}
		total += max(counted.bytes-leastMemory, 0)
		if m := s.out.memory; m.bytes != counted.bytes || m.absent != counted.absent || s.out.bytes != bytes || s.out.live != live {
			wrong = append(wrong, fmt.Errorf("%s: %d messages of %d bytes are counted as %d of %d, %d bytes in memory as %d, %d absent as %d",
				s.clientID, live, bytes, s.out.live, s.out.bytes, counted.bytes, m.bytes, counted.absent, m.absent))
		}
		s.mu.Unlock()
	}
	if got := e.queuedMemory.Load(); got != total {
		wrong = append(wrong, fmt.Errorf("%d bytes in memory beside the least are counted as %d", total, got))
	}
	return errors.Join(append(wrong, e.auditQuotas())...)
}

// auditQuotas recounts what quotas bound.
func (e *Engine) auditQuotas() error {
	var all [quotaReasons]int64
	users := map[owner]*[quotaReasons]int64{}
	count := func(o owner, what QuotaReason, n int64) {
		if users[o] == nil {
			users[o] = &[quotaReasons]int64{}
		}
		users[o][what] += n
		all[what] += n
	}
	for _, s := range e.all() {
		s.mu.Lock()
		count(s.owner(), QuotaSessions, 1)
		for filter := range s.subscribed.options {
			count(s.owner(), QuotaSubscriptions, subscriptionCost(filter))
		}
		count(s.owner(), QuotaSessionBytes, s.ownBytes(s.will.record.size()))
		for entry := range s.out.all() {
			if s.stored {
				count(s.owner(), QuotaQueued, entry.cost().stored)
				count(s.owner(), QuotaSessionBytes, entry.cost().memory)
			}
		}
		s.mu.Unlock()
	}
	for topic, m := range e.retained.index.Match("") {
		if isDurable(topic) {
			count(publisher(m), QuotaRetained, 1)
			count(publisher(m), QuotaRetainedBytes, int64(m.size()))
		}
	}
	var wrong []error
	e.quotas.mu.Lock()
	defer e.quotas.mu.Unlock()
	for what := range quotaReasons {
		if got := e.quotas.all[what].Load(); got != all[what] {
			wrong = append(wrong, fmt.Errorf("%v: %d are counted as %d", what, all[what], got))
		}
		for o, a := range e.quotas.users {
			want := int64(0)
			if users[o] != nil {
				want = users[o][what]
			}
			if got := a.usage[what].Load(); got != want {
				wrong = append(wrong, fmt.Errorf("%v of %+v: %d are counted as %d", what, o, want, got))
			}
		}
	}
	for o := range users {
		if e.quotas.users[o] == nil {
			wrong = append(wrong, fmt.Errorf("%+v is not counted", o))
		}
	}
	if len(e.quotas.users) > len(users) {
		wrong = append(wrong, fmt.Errorf("%d users are counted, there are %d", len(e.quotas.users), len(users)))
	}
	return errors.Join(wrong...)
}
