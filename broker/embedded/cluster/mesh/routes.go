package mesh

import (
	"context"
	"sync"

	"signalbox/broker/embedded/engine"
)

// table counts the subscriptions of this node by filter, and tracks which changes the peers
// know. The engine calls it with its locks held, so its mutex is a leaf lock, held briefly.
type table struct {
	mu         sync.Mutex // guards everything below, and the recipients
	filters    map[string]subscriptionCounts
	version    uint64 // incremented by every change to send
	recipients map[*recipient]struct{}
	updated    chan struct{} // closed when a recipient acknowledges a version or is removed
}

// subscriptionCounts counts the subscriptions to a filter by kind and QoS.
type subscriptionCounts [kinds][3]int32

// The kinds of subscriptions.
const (
	temporary = iota // the session ends with its connection
	lasting
	disconnected // a shared subscription of a disconnected client
	kinds
)

func kindOf(i engine.Interest) int {
	switch {
	case i.Away:
		return disconnected
	case i.Temporary:
		return temporary
	}
	return lasting
}

// interest returns the aggregate of the subscriptions, and false if there are none.
func (t subscriptionCounts) interest() (i engine.Interest, ok bool) {
	if t == (subscriptionCounts{}) {
		return i, false
	}
	i.Away, i.Temporary = true, true
	for kind := range t {
		for qos, n := range t[kind] {
			if n == 0 {
				continue
			}
			i.QoS = max(i.QoS, byte(qos))
			i.Away = i.Away && kind == disconnected
			i.Temporary = i.Temporary && (kind == temporary || qos == 0)
		}
	}
	return i, true
}

// recipient is a peer that routes are sent to.
type recipient struct {
	wake func() // called when there is something to send; must not block

	linked  bool                // the link is up
	dialing bool                // it broke, and no attempt to dial has failed since
	changed map[string]struct{} // filters to send
	acked   uint64              // version acknowledged
}

func newTable() *table {
	return &table{filters: map[string]subscriptionCounts{}, recipients: map[*recipient]struct{}{}, updated: make(chan struct{})}
}

// Joined counts a subscription.
func (t *table) Joined(filter string, i engine.Interest) { t.count(filter, i, 1) }

// Left removes a subscription.
func (t *table) Left(filter string, i engine.Interest) { t.count(filter, i, -1) }

func (t *table) count(filter string, i engine.Interest, by int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.filters[filter]
	before, had := now.interest()
	now[kindOf(i)][i.QoS] += by
	after, has := now.interest()
	if has {
		t.filters[filter] = now
	} else {
		delete(t.filters, filter)
	}
	if has != had || before != after {
		t.markChanged(filter)
	}
}

// markChanged schedules a filter for all recipients. t.mu must be held.
func (t *table) markChanged(filter string) {
	t.version++
	for a := range t.recipients {
		if a.linked {
			a.changed[filter] = struct{}{}
			a.wake()
		}
	}
}

// Known waits until all linked peers have acknowledged the current version. A peer whose link
// has just broken is waited for, as long as no attempt to dial it has failed.
func (t *table) Known(ctx context.Context) {
	t.mu.Lock()
	want := t.version
	t.mu.Unlock()
	for {
		updated, waiting := t.awaiting(want)
		if !waiting {
			return
		}
		select {
		case <-updated:
		case <-ctx.Done():
			return
		}
	}
}

// awaiting reports whether a recipient has not acknowledged a version, and returns a channel
// that is closed when that may have changed.
func (t *table) awaiting(version uint64) (updated <-chan struct{}, waiting bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a := range t.recipients {
		waiting = waiting || a.dialing || a.linked && a.acked < version
	}
	return t.updated, waiting
}

// addRecipient begins to send routes to a peer, and returns the full table.
func (t *table) addRecipient(a *recipient) *routes {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recipients[a] = struct{}{}
	a.linked, a.dialing, a.changed, a.acked = true, false, map[string]struct{}{}, 0
	if t.version == 0 {
		t.version = 1 // so that an empty table is acknowledged, too
	}
	r := &routes{number: t.version, full: true, list: make([]route, 0, len(t.filters))}
	for filter, now := range t.filters {
		i, _ := now.interest()
		r.list = append(r.list, route{filter: filter, Interest: i})
	}
	return r
}

// suspendRecipient stops sending routes to a peer whose link broke and is dialled again.
func (t *table) suspendRecipient(a *recipient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.linked, a.dialing, a.changed = false, true, nil
}

// removeRecipient removes a peer that cannot be dialled.
func (t *table) removeRecipient(a *recipient) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.recipients, a)
	a.dialing = false
	t.notifyWaiters()
}

// notifyWaiters wakes the callers of Known. t.mu must be held.
func (t *table) notifyWaiters() {
	close(t.updated)
	t.updated = make(chan struct{})
}

// nextUpdate returns the routes to send next, or nil.
func (t *table) nextUpdate(a *recipient) *routes {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(a.changed) == 0 {
		return nil
	}
	r := &routes{number: t.version, list: make([]route, 0, len(a.changed))}
	for filter := range a.changed {
		i, ok := t.filters[filter].interest()
		r.list = append(r.list, route{filter: filter, Interest: i, removed: !ok})
	}
	a.changed = map[string]struct{}{}
	return r
}

// ack records the version that a peer has acknowledged.
func (t *table) ack(a *recipient, version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.linked && version > a.acked {
		a.acked = version
		t.notifyWaiters()
	}
}

// routesFrameSize is the approximate size of a frame of routes, if there are more.
const routesFrameSize = 32 << 10

// appendFrames encodes routes in frames of bounded size.
func (r *routes) appendFrames(dst []byte, write func([]byte) error) ([]byte, error) {
	for part := (routes{number: r.number, full: r.full}); ; part.full = false {
		n, size := 0, 0
		for n < len(r.list) && size < routesFrameSize {
			size += len(r.list[n].filter)
			n++
		}
		part.list, r.list = r.list[:n], r.list[n:]
		part.last = len(r.list) == 0
		dst = appendRoutes(dst, &part)
		if part.last {
			return dst, nil
		}
		if err := write(dst); err != nil {
			return dst, err
		}
		dst = dst[:0]
	}
}
