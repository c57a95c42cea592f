package sessions

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"
)

// peer is the state of another node.
type peer struct {
	heard        bool // it has responded, or sent a request, since the start of this node
	unreachable  bool // it does not respond: claims are completed without it
	unreconciled bool // it may have sessions that are also here
	reconciling  bool // reconciliation is in progress
	generation   int  // incremented whenever it becomes unreconciled
}

// peerState returns the state of a node. c.mu must be held.
func (c *Coordinator) peerState(node int) *peer {
	p := c.peers[node]
	if p == nil {
		p = &peer{unreconciled: true}
		c.peers[node] = p
	}
	return p
}

// reachablePeers returns the peers that respond and those that do not.
func (c *Coordinator) reachablePeers() (reachable, unreachable []int) {
	nodes, _ := c.o.Net.Peers()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if c.peerState(n).unreachable {
			unreachable = append(unreachable, n)
		} else {
			reachable = append(reachable, n)
		}
	}
	return reachable, unreachable
}

// awayPeers returns the peers that do not respond and those of some nodes, and reports whether the others are settled:
// none has sessions that are also here.
func (c *Coordinator) awayPeers(some []int) (away []int, settled bool) {
	nodes, _ := c.o.Net.Peers()
	c.mu.Lock()
	defer c.mu.Unlock()
	settled = true
	for _, n := range nodes {
		p := c.peerState(n)
		if p.unreachable || slices.Contains(some, n) {
			away = append(away, n)
		}
		settled = settled && !p.unreconciled
	}
	return away, settled
}

// Bounds of the delay between attempts of a request.
const (
	minRetryDelay = 10 * time.Millisecond
	maxRetryDelay = 200 * time.Millisecond
)

// refusedTimeout bounds how long a request is repeated to a node that was heard from before and refuses
// connections now: nothing listens there, so it has failed. Another one may be about to start, as
// after a power failure of all nodes.
const refusedTimeout = 250 * time.Millisecond

// ask sends a request to a node, and repeats it until the timeout: all requests are
// idempotent. A node that does not respond in time counts as unreachable, unless ctx ended.
func (c *Coordinator) ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	return c.repeat(ctx, to, request, nil)
}

// askNew is ask for a request that nodes of older releases do not know. They refuse it, which is not repeated: the
// error is ErrRefused.
func (c *Coordinator) askNew(ctx context.Context, to int, request []byte) ([]byte, error) {
	return c.repeat(ctx, to, request, ErrRefused)
}

// repeat is ask that ends with an error, too.
func (c *Coordinator) repeat(ctx context.Context, to int, request []byte, final error) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, c.o.RequestTimeout)
	defer cancel()
	wasReachable := c.isReachable(to)
	var refusedAt time.Time // since when connections are refused, zero if they are not
	for delay := minRetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		b, err := c.o.Net.Ask(bounded, to, request)
		if err == nil {
			c.noteResponse(to)
		}
		if err == nil || final != nil && errors.Is(err, final) || wasReachable && !c.isReachable(to) { // it has just announced that it stops
			return b, err
		}
		switch {
		case !errors.Is(err, syscall.ECONNREFUSED) || !c.wasHeard(to):
			refusedAt = time.Time{}
		case refusedAt.IsZero():
			refusedAt = time.Now()
		case time.Since(refusedAt) >= refusedTimeout:
			cancel()
		}
		select {
		case <-time.After(delay):
		case <-bounded.Done():
			if ctx.Err() == nil {
				c.o.Log.Debug("a node did not respond", "node", to, "error", err)
				c.markUnreachable(to)
			}
			return nil, err
		}
	}
}

// noteResponse records a response of a node.
func (c *Coordinator) noteResponse(node int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peerState(node).heard = true
}

// wasHeard reports whether a node was heard from since the start of this one.
func (c *Coordinator) wasHeard(node int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peerState(node).heard
}

// isReachable reports whether a node has responded lately.
func (c *Coordinator) isReachable(node int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.peerState(node).unreachable
}

// markUnreachable records that a node did not respond.
func (c *Coordinator) markUnreachable(node int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peerState(node)
	p.unreachable, p.unreconciled = true, true
	p.generation++
}

// markUnreconciled records that nodes may have sessions that are also here, although they
// respond.
func (c *Coordinator) markUnreconciled(nodes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		p := c.peerState(n)
		p.unreconciled = true
		p.generation++
	}
}

// probePeers reconciles peers that are unreconciled, until Close.
func (c *Coordinator) probePeers() {
	tick := time.NewTicker(c.o.ProbeInterval)
	defer tick.Stop()
	for {
		for _, n := range c.peersToReconcile() {
			c.startTask(func() { c.reconcile(n) })
		}
		select {
		case <-tick.C:
		case <-c.wakeProbe:
		case <-c.ctx.Done():
			return
		}
	}
}

// noteContact wakes the probe when an unreachable node sends a request.
func (c *Coordinator) noteContact(node int) {
	c.mu.Lock()
	p := c.peerState(node)
	p.heard = true
	unreachable := p.unreachable
	c.mu.Unlock()
	if unreachable {
		c.probeSoon()
	}
}

// probeSoon wakes the probe.
func (c *Coordinator) probeSoon() {
	select {
	case c.wakeProbe <- struct{}{}:
	default:
	}
}

// peersToReconcile returns the peers to reconcile now, and drops the state of nodes that are
// no longer peers. Sessions that may be at such a node end.
func (c *Coordinator) peersToReconcile() (found []int) {
	nodes, ok := c.o.Net.Peers()
	if !ok {
		return nil
	}
	for _, h := range c.doubts(func(to int) bool { return !slices.Contains(nodes, to) }) {
		c.endDoubt(h, false)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	current := map[int]*peer{}
	for _, n := range nodes {
		p := c.peerState(n)
		current[n] = p
		if p.unreconciled && !p.reconciling {
			p.reconciling = true
			found = append(found, n)
		}
	}
	c.peers = current
	c.dropParts(func(at int) bool { return current[at] == nil })
	for key := range c.unconfirmed {
		if current[key.from] == nil {
			delete(c.unconfirmed, key)
		}
	}
	return found
}
