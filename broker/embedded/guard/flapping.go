package guard

import (
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
)

// maxFlappingIDs bounds the client ids that are watched. The one that has not
// connected for the longest is forgotten.
const maxFlappingIDs = 65_536

// Flapping notices client ids that connect again and again. All methods are
// safe for concurrent use.
type Flapping struct {
	config FlappingConfig
	now    func() time.Time

	mu     sync.Mutex               // guards what follows
	recent list.List                // of *flapper, the one that connected last at the end
	byID   map[string]*list.Element // of recent
}

// flapper is a client id with the times of its connects within the window.
type flapper struct {
	id    string
	times []time.Time // in order, at most MaxConnects
}

// NewFlapping watches from now on. The configuration must be valid.
func NewFlapping(c FlappingConfig, now func() time.Time) *Flapping {
	return &Flapping{config: c, now: now, byID: map[string]*list.Element{}}
}

// Connected notes that a client has logged in and gives the ban that it has
// earned, if any. Who could not log in must not be noted, or anybody could have
// any client id banned.
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

// exceeds notes a connect and tells whether it is one too many. The count then
// begins anew.
func (f *Flapping) exceeds(id string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	who := f.watch(id)
	since := now.Add(-f.config.Window)
	who.times = slices.DeleteFunc(who.times, func(t time.Time) bool { return !t.After(since) })
	if len(who.times) == f.config.MaxConnects {
		f.forget(f.byID[id])
		return true
	}
	who.times = append(who.times, now)
	f.forgetIdle(since)
	return false
}

// watch finds or makes what is known of a client id, which becomes the last.
func (f *Flapping) watch(id string) *flapper {
	e := f.byID[id]
	if e == nil {
		e = f.recent.PushBack(&flapper{id: id})
		f.byID[id] = e
	}
	f.recent.MoveToBack(e)
	return e.Value.(*flapper) //nolint:forcetypeassert // only flappers are in it
}

// forgetIdle forgets client ids whose window has passed or that there is no
// room for.
func (f *Flapping) forgetIdle(since time.Time) {
	for range 2 { // two for one, so that they become fewer
		first := f.recent.Front()
		times := first.Value.(*flapper).times //nolint:forcetypeassert // only flappers are in it
		if f.recent.Len() <= maxFlappingIDs && times[len(times)-1].After(since) {
			return
		}
		f.forget(first)
	}
}

func (f *Flapping) forget(e *list.Element) {
	delete(f.byID, e.Value.(*flapper).id) //nolint:forcetypeassert // only flappers are in it
	f.recent.Remove(e)
}
