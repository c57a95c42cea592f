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
	longestDelay = 15 * time.Minute // the maximum
	forgetAfter  = time.Hour        // without an attempt, after which earlier failures do not count
	throttleSize = 16384            // records; the one longest without an attempt is evicted
)

// throttle delays callers that fail to log in, by address, and by pair of address and
// account. It never delays an account for all addresses: attackers could lock its user
// out.
//
// An attempt counts as a failure from its beginning and is taken back when it succeeds,
// so that the limit holds for concurrent attempts as well.
type throttle struct {
	mu      sync.Mutex // protects all below
	records map[throttleKey]*list.Element
	recent  *list.List // of *record, last attempt first
}

// throttleKey is the digest of an account's or address's name, so that the memory of a
// record does not depend on the length of the name.
type throttleKey [sha256.Size]byte

type record struct {
	key      throttleKey
	failures int
	last     time.Time // of the last attempt
	until    time.Time // no attempt is allowed before
}

func newThrottle() *throttle {
	return &throttle{records: map[throttleKey]*list.Element{}, recent: list.New()}
}

// pairKey is the same for all spellings of an e-mail address, and is defined for
// addresses without an account.
func pairKey(origin throttleKey, email string) throttleKey {
	return sha256.Sum256(append([]byte("pair\x00"+string(origin[:])), db.FoldEmail(email)...))
}

// userKey returns the key of a signed-in user.
func userKey(id string) throttleKey { return sha256.Sum256([]byte("user\x00" + id)) }

// isThisMachine reports whether a caller is on the machine that the service runs on,
// and not behind a proxy that may forward for others.
func isThisMachine(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Unmap().IsLoopback()
}

// addressKey uses the /64 of an IPv6 address: one customer usually has all of it.
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

// begin counts an attempt under each key, or refuses it under all with the time to
// wait.
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

// takeBack reverts one attempt under the key, which did not fail.
func (t *throttle) takeBack(key throttleKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if el, ok := t.records[key]; ok {
		el.Value.(*record).takeBack()
	}
}

// forget deletes the record of the key.
func (t *throttle) forget(key throttleKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if el, ok := t.records[key]; ok {
		t.drop(el)
	}
}

// touch returns the key's record, creates it if necessary, and moves it to the front.
// t.mu is held.
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

// note makes the key known; see isKnown.
func (t *throttle) note(key throttleKey, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.touch(key, now)
}

// isKnown reports whether the key was noted and has not been evicted.
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

// takeBack reverts the delay too: this attempt set it, since another one is allowed
// only after it.
func (r *record) takeBack() {
	r.failures = max(0, r.failures-1)
	r.until = time.Time{}
}

// delayAfter returns the delay after that many failures.
func delayAfter(failures int) time.Duration {
	if failures < freeAttempts {
		return 0
	}
	doublings := min(failures-freeAttempts, 20) // more would eventually overflow
	return min(firstDelay<<doublings, longestDelay)
}
