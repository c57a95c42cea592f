package cluster

import (
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// clock is the time by which certificates begin and end: how long nodes of the cluster
// have run, in all. It begins with the time of day and then grows with what passes
// while this node runs, and with what other members are ahead, so it is about the same
// on all of them. A step of the time of day does not change it.
type clock struct {
	wall func() time.Time

	mu   sync.Mutex // guards what follows; an innermost lock
	now  time.Time
	last time.Time // of wall
	kept time.Time // as it was stored last
}

// certificateLife is how long a certificate of a connection lasts, unless a test says
// otherwise. It is renewed after a third of that.
const certificateLife = 7 * 24 * time.Hour

// maxTick is how much may pass between two looks at the clock, which is looked at every
// second while the node takes part: more is a step.
const maxTick = time.Hour

// lastTime is where the clock stops. Certificates can name no time after the year 9999
// (RFC 5280, 4.1.2.5), so without it one member that shows such a time would leave all
// others without certificates for good.
var lastTime = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// newClock returns a clock that goes on from a time; zero for the time of day.
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

// observe notes the time of another member, which may be ahead. A time that is not
// possible is ignored.
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

// leaf is what a node shows on connections: a key that is in memory only, and a
// certificate of it that the node's own key has signed, which ends.
type leaf struct {
	tls.Certificate
	own   *ownKey   // that has signed it
	renew time.Time // from then on there should be another one
}

// newLeaf makes one. chain is that of the node's own key.
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

// show returns what is shown on the next connection. A cluster of an earlier release is
// shown the certificate of its authority.
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

// checkTime checks that none of a node's certificates has ended. One that begins later
// shows that its node's clock is ahead.
func (b *credentials) checkTime(p *presented) error {
	if now := b.clock.time(); now.After(p.ends) {
		return fmt.Errorf("%w: its certificate has ended %v ago", errNotMember, now.Sub(p.ends).Round(time.Second))
	}
	return nil
}
