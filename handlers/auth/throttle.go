package auth

import (
	"container/list"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"signalbox/db"
)

const (
	freeAttempts = 5                // failures before the first delay
	firstDelay   = time.Second      // after the fifth failure; it doubles with each further one
	longestDelay = 15 * time.Minute // the growth ends here
	forgetAfter  = time.Hour        // without an attempt, after which earlier failures no longer count
	throttleSize = 16384            // records kept; the one longest without an attempt goes first
)

// throttle delays those who fail to log in, by address, and by pair of address and
// account. It never delays an account wherever it logs in from: strangers could
// keep it out.
//
// An attempt counts as a failure from its beginning and is taken back when it
// succeeds, so that attempts made at once cannot slip through together.
type throttle struct {
	mu      sync.Mutex // guards all below
	records map[throttleKey]*list.Element
	recent  *list.List // of *record, last attempt first
}

// throttleKey is the digest of an account's or address's name, so that no name, however
// long, costs more memory than another.
type throttleKey [sha256.Size]byte

type record struct {
	key      throttleKey
	failures int
	last     time.Time // of the last attempt
	until    time.Time // no attempt before
}

func newThrottle() *throttle {
	return &throttle{records: map[throttleKey]*list.Element{}, recent: list.New()}
}

// pairKey is the same for all spellings of an e-mail address, and exists for those
// that no account has.
func pairKey(origin throttleKey, email string) throttleKey {
	return sha256.Sum256(append([]byte("pair\x00"+string(origin[:])), db.FoldEmail(email)...))
}

// userKey is for a user who is signed in already.
func userKey(id string) throttleKey { return sha256.Sum256([]byte("user\x00" + id)) }

// isThisMachine reports whether a caller is on the machine that the service runs on,
// with nothing in between that may speak for others.
func isThisMachine(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Unmap().IsLoopback()
}

// addressKey takes the /64 of an IPv6 address: one customer usually has all of it.
func addressKey(address string) throttleKey {
	if ip, err := netip.ParseAddr(address); err == nil {
		address = network(ip.Unmap())
	}
	return sha256.Sum256([]byte("address\x00" + address))
}

func network(ip netip.Addr) string {
	if !ip.Is6() {
		return ip.String()
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
}

// begin counts an attempt under each key, or refuses it under all with the time
// to wait.
func (t *throttle) begin(now time.Time, keys ...throttleKey) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var wait time.Duration
	for _, key := range keys {
		if el, ok := t.records[key]; ok {
			wait = max(wait, el.Value.(*record).until.Sub(now))
		}
	}
	if wait > 0 {
		return &TooManyAttempts{RetryAfter: wait}
	}
	for _, key := range keys {
		t.touch(key, now).fail(now)
	}
	return nil
}

// takeBack undoes one attempt under the key: it did not fail.
func (t *throttle) takeBack(key throttleKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if el, ok := t.records[key]; ok {
		el.Value.(*record).takeBack()
	}
}

// forget drops what is known of the key.
func (t *throttle) forget(key throttleKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if el, ok := t.records[key]; ok {
		t.drop(el)
	}
}

// touch finds or makes the key's record and puts it first. t.mu is held.
func (t *throttle) touch(key throttleKey, now time.Time) *record {
	if el, ok := t.records[key]; ok {
		t.recent.MoveToFront(el)
		r := el.Value.(*record)
		if now.Sub(r.last) > forgetAfter {
			r.failures = 0
		}
		return r
	}
	if t.recent.Len() >= throttleSize {
		t.drop(t.recent.Back())
	}
	r := &record{key: key}
	t.records[key] = t.recent.PushFront(r)
	return r
}

func (t *throttle) drop(el *list.Element) {
	delete(t.records, el.Value.(*record).key)
	t.recent.Remove(el)
}

// note makes the key known: see isKnown.
func (t *throttle) note(key throttleKey, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.touch(key, now)
}

// isKnown reports whether the key was noted, unless so many others were since that
// it is forgotten.
func (t *throttle) isKnown(key throttleKey) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.records[key]
	return ok
}

func (r *record) fail(now time.Time) {
	r.failures++
	r.last = now
	r.until = now.Add(delayAfter(r.failures))
}

// takeBack lifts the delay too: it was set by this attempt, since the next one
// is let in only after it.
func (r *record) takeBack() {
	r.failures = max(0, r.failures-1)
	r.until = time.Time{}
}

// delayAfter returns the pause after so many failures.
func delayAfter(failures int) time.Duration {
	if failures < freeAttempts {
		return 0
	}
	doublings := min(failures-freeAttempts, 20) // more would overflow, in the end
	return min(firstDelay<<doublings, longestDelay)
}
