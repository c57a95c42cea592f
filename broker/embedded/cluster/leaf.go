package cluster

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// clock is the cluster's time, by which certificates of connections begin and end. It begins
// with the time of day of the first node, grows with the time that passes while nodes run, and
// advances to that of any member that is ahead, by the certificates that are presented; so it is
// about the same at all members. A wrong or stepped time of day does not change it.
type clock struct {
	wall func() time.Time

	mu   sync.Mutex // guards what follows; an innermost lock
	now  time.Time
	last time.Time // last reading of wall
	kept time.Time // the stored value
}

// certificateLife is the validity of a certificate of connections. It is renewed after a third
// of that. Someone who steals such a key from memory can use it for that long.
const certificateLife = 7 * 24 * time.Hour

// maxTick is the longest time between two readings of the clock, which is read every second
// while the node takes part. More is a step of the time of day.
const maxTick = time.Hour

// lastTime is where the clock stops. Certificates can name no time after the year 9999
// (RFC 5280, 4.1.2.5), so without it one member that shows such a time would leave all
// others without certificates for good.
var lastTime = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// newClock returns a clock that continues from a time; zero for the time of day.
func newClock(wall func() time.Time, from time.Time) *clock {
	c := &clock{wall: wall, now: from, last: wall(), kept: from}
	if from.IsZero() {
		c.now = c.last.Round(0).UTC()
	}
	c.now = notLater(c.now)
	return c
}

// notLater returns a time, or lastTime if that is earlier.
func notLater(t time.Time) time.Time {
	if t.After(lastTime) {
		return lastTime
	}
	return t
}

// time returns the time.
func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall := c.wall()
	c.now = notLater(c.now.Add(min(max(wall.Sub(c.last), 0), maxTick)))
	c.last = wall
	return c.now
}

// observe advances the clock to the time of another member, if that is ahead. It ignores times
// after lastTime.
func (c *clock) observe(t time.Time) {
	if t.After(lastTime) {
		return
	}
	now := c.time()
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(now) {
		c.now = t
	}
}

// due returns the time if it should be stored.
func (c *clock) due() (now time.Time, is bool) {
	now = c.time()
	c.mu.Lock()
	defer c.mu.Unlock()
	if is = now.Sub(c.kept) >= maxTick; is {
		c.kept = now
	}
	return now, is
}

// leaf is the key and certificate that a node presents on connections. The key is in memory
// only, and the certificate, signed by the node's own key, expires.
type leaf struct {
	tls.Certificate
	own   *ownKey   // that signed the certificate
	renew time.Time // when the leaf is to be replaced
}

// newLeaf returns a leaf signed by the node's own key.
func (b *credentials) newLeaf(now time.Time) (*leaf, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	own := b.own.Load()
	der, err := certify(b.uuid, b.self, key.Public(), own.key, now, now.Add(b.life))
	if err != nil {
		return nil, err
	}
	l := &leaf{own: own, renew: now.Add(b.life / 3)}
	l.Certificate = tls.Certificate{Certificate: append([][]byte{der}, own.chain...), PrivateKey: key}
	return l, nil
}

// show returns the certificate for the next connection. In a cluster that an earlier release
// created it is the one that the authority has signed.
func (b *credentials) show() (*tls.Certificate, error) {
	if b.known().Keys == nil {
		own := b.own.Load()
		return &tls.Certificate{Certificate: own.chain, PrivateKey: own.key}, nil
	}
	now := b.clock.time()
	if l := b.leaf.Load(); l != nil && l.own == b.own.Load() && now.Before(l.renew) {
		return &l.Certificate, nil
	}
	l, err := b.newLeaf(now)
	if err != nil {
		return nil, err
	}
	b.leaf.Store(l)
	return &l.Certificate, nil
}

// checkTime checks that none of a node's certificates has expired. One that begins in the future
// advances the clock.
func (b *credentials) checkTime(p *presented) error {
	if now := b.clock.time(); now.After(p.ends) {
		return fmt.Errorf("%w: its certificate expired %v ago", errNotMember, now.Sub(p.ends).Round(time.Second))
	}
	return nil
}
