package mesh

import (
	"context"
	"sync"

	"signalbox/broker/embedded/engine"
)

// table is what is subscribed to on this node, put together for each filter, and
// what other nodes know of it. It is told with locks of the engine held, so its
// own is an innermost one, held for moments only.
type table struct {
	mu        sync.Mutex // guards all below, and the audiences
	filters   map[string]tally
	version   uint64 // grows with every change that others are to know of
	audiences map[*audience]struct{}
	told      chan struct{} // closed when one of them knows more or is there no more
}

// tally counts subscriptions to a filter, by QoS: of those whose client is there,
// and of those that are away.
type tally [2][3]int32

// interest gives what is asked for in all; there is none where nobody asks.
func (t tally) interest() (i engine.Interest, ok bool) {
	present := t[0][0]+t[0][1]+t[0][2] > 0
	for qos := range byte(3) {
		if t[0][qos]+t[1][qos] > 0 {
			i.QoS, ok = qos, true
		}
	}
	i.Away = ok && !present
	return i, ok
}

// audience is another node to which routes are told.
type audience struct {
	wake func() // called when there is something to be told; must not block

	listening bool                // it can be reached
	changed   map[string]struct{} // filters of which it does not know
	acked     uint64              // version that it knows
}

func newTable() *table {
	return &table{filters: map[string]tally{}, audiences: map[*audience]struct{}{}, told: make(chan struct{})}
}

// Joined counts a subscription.
func (t *table) Joined(filter string, i engine.Interest) { t.count(filter, i, 1) }

// Left counts one less.
func (t *table) Left(filter string, i engine.Interest) { t.count(filter, i, -1) }

func (t *table) count(filter string, i engine.Interest, by int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.filters[filter]
	before, had := now.interest()
	away := 0
	if i.Away {
		away = 1
	}
	now[away][i.QoS] += by
	after, has := now.interest()
	if has {
		t.filters[filter] = now
	} else {
		delete(t.filters, filter)
	}
	if has != had || before != after {
		t.change(filter)
	}
}

// change has a filter told to all. mu is held.
func (t *table) change(filter string) {
	t.version++
	for a := range t.audiences {
		if a.listening {
			a.changed[filter] = struct{}{}
			a.wake()
		}
	}
}

// Known waits until all nodes that can be reached know of what was told before.
func (t *table) Known(ctx context.Context) {
	t.mu.Lock()
	want := t.version
	t.mu.Unlock()
	for {
		told, behind := t.behind(want)
		if !behind {
			return
		}
		select {
		case <-told:
		case <-ctx.Done():
			return
		}
	}
}

// behind tells whether a node does not know a version, and gives what is closed
// when that may have changed.
func (t *table) behind(version uint64) (told <-chan struct{}, behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a := range t.audiences {
		behind = behind || a.listening && a.acked < version
	}
	return t.told, behind
}

// join begins to tell a node, with the whole table.
func (t *table) join(a *audience) *routes {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.audiences[a] = struct{}{}
	a.listening, a.changed, a.acked = true, map[string]struct{}{}, 0
	if t.version == 0 {
		t.version = 1 // so that an empty table is acknowledged, too
	}
	r := &routes{number: t.version, whole: true, list: make([]route, 0, len(t.filters))}
	for filter, now := range t.filters {
		i, _ := now.interest()
		r.list = append(r.list, route{filter: filter, Interest: i})
	}
	return r
}

// leave ends telling a node.
func (t *table) leave(a *audience) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.audiences, a)
	a.listening, a.changed = false, nil
	t.tell()
}

// tell wakes who waits in Known. mu is held.
func (t *table) tell() {
	close(t.told)
	t.told = make(chan struct{})
}

// next gives what a node is to be told, nil for nothing.
func (t *table) next(a *audience) *routes {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(a.changed) == 0 {
		return nil
	}
	r := &routes{number: t.version, list: make([]route, 0, len(a.changed))}
	for filter := range a.changed {
		i, ok := t.filters[filter].interest()
		r.list = append(r.list, route{filter: filter, Interest: i, gone: !ok})
	}
	a.changed = map[string]struct{}{}
	return r
}

// ack notes which version a node knows.
func (t *table) ack(a *audience, version uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.listening && version > a.acked {
		a.acked = version
		t.tell()
	}
}

// chunk is how many bytes of routes one frame holds at least, if there are more.
const chunk = 32 << 10

// appendAll encodes routes as frames of a bearable size.
func (r *routes) appendAll(dst []byte, write func([]byte) error) ([]byte, error) {
	for part := (routes{number: r.number, whole: r.whole}); ; part.whole = false {
		n, size := 0, 0
		for n < len(r.list) && size < chunk {
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
