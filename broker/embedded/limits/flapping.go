package limits

import (
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
)

// maxFlappingIDs bounds the client ids that are watched. The one that has not connected for
// the longest time is removed.
const maxFlappingIDs = 65_536

// Flapping detects client ids that connect too often. All methods are safe for concurrent
// use.
type Flapping struct {
	config FlappingConfig
	now    func() time.Time

	mu     sync.Mutex               // guards what follows
	recent list.List                // of *history, the one that connected last at the end
	byID   map[string]*list.Element // of recent
}

// history is a client id with the times of its connects within the window.
type history struct {
	id    string
	times []time.Time // ascending, at most MaxConnects
}

// NewFlapping starts without history. The configuration must be valid.
func NewFlapping(c FlappingConfig, now func() time.Time) *Flapping {
	return &Flapping{config: c, now: now, byID: map[string]*list.Element{}}
}

// Connected records that a client has logged in, and returns the ban it has incurred, if
// any. A client that could not log in must not be recorded, or any peer could have any
// client id banned.
func (f *Flapping) Connected(clientID string) (broker.Ban, bool) {
	if f.config.MaxConnects == 0 {
		return broker.Ban{}, false
	}
	now := f.now()
	if !f.exceeds(clientID, now) {
		return broker.Ban{}, false
	}
	return broker.Ban{
		Kind: broker.BanClientID, Value: clientID,
		Reason:    fmt.Sprintf("connected more than %d times within %s", f.config.MaxConnects, f.config.Window),
		CreatedBy: ByFlapping, CreatedAt: now, ExpiresAt: now.Add(f.config.BanTime),
	}, true
}

// exceeds records a connect and reports whether it is one too many. Counting then starts
// over.
func (f *Flapping) exceeds(id string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.findOrCreate(id)
	since := now.Add(-f.config.Window)
	h.times = slices.DeleteFunc(h.times, func(t time.Time) bool { return !t.After(since) })
	if len(h.times) == f.config.MaxConnects {
		f.remove(f.byID[id])
		return true
	}
	h.times = append(h.times, now)
	f.removeIdle(since)
	return false
}

// findOrCreate returns the history of a client id, which becomes the last in order.
func (f *Flapping) findOrCreate(id string) *history {
	e := f.byID[id]
	if e == nil {
		e = f.recent.PushBack(&history{id: id})
		f.byID[id] = e
	}
	f.recent.MoveToBack(e)
	return e.Value.(*history) //nolint:forcetypeassert // only histories are in it
}

// removeIdle removes client ids whose window has passed or that exceed maxFlappingIDs.
func (f *Flapping) removeIdle(since time.Time) {
	for range 2 { // two per connect, so that their number falls
		first := f.recent.Front()
		times := first.Value.(*history).times //nolint:forcetypeassert // only histories are in it
		if f.recent.Len() <= maxFlappingIDs && times[len(times)-1].After(since) {
			return
		}
		f.remove(first)
	}
}

func (f *Flapping) remove(e *list.Element) {
	delete(f.byID, e.Value.(*history).id) //nolint:forcetypeassert // only histories are in it
	f.recent.Remove(e)
}
