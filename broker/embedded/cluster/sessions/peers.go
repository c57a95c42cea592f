package sessions

import (
	"context"
	"time"
)

// peer is what is known of another node.
type peer struct {
	silent  bool // it did not answer: clients are let in without it
	strange bool // it may have sessions that are here, too
	busy    bool // it is being reconciled
	doubts  int  // how often it became strange
}

// peerOf gives what is known of a node. mu is held.
func (c *Claims) peerOf(node int) *peer {
	p := c.peers[node]
	if p == nil {
		p = &peer{strange: true}
		c.peers[node] = p
	}
	return p
}

// answering gives the nodes that are worth asking, and the others.
func (c *Claims) answering() (found, silent []int) {
	nodes := c.o.Net.Peers()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		if c.peerOf(n).silent {
			silent = append(silent, n)
		} else {
			found = append(found, n)
		}
	}
	return found, silent
}

// The pauses between attempts to ask a node.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// ask puts a request to a node, more than once if need be: no request does harm
// twice. A node that does not answer in time is passed over from now on, until it
// does again. That the asking was given up is not its fault.
func (c *Claims) ask(ctx context.Context, to int, request []byte) ([]byte, error) {
	bounded, cancel := context.WithTimeout(ctx, c.o.Patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		b, err := c.o.Net.Ask(bounded, to, request)
		if err == nil {
			return b, nil
		}
		select {
		case <-time.After(pause):
		case <-bounded.Done():
			if ctx.Err() == nil {
				c.o.Log.Debug("a node did not answer", "node", to, "error", err)
				c.miss(to)
			}
			return nil, err
		}
	}
}

// miss notes that a node did not answer.
func (c *Claims) miss(node int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peerOf(node)
	p.silent, p.strange = true, true
	p.doubts++
}

// suspect notes that nodes may have sessions that are here, too, although they
// answer.
func (c *Claims) suspect(nodes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		p := c.peerOf(n)
		p.strange = true
		p.doubts++
	}
}

// probe looks after peers that are strange, until the end.
func (c *Claims) probe() {
	tick := time.NewTicker(c.o.Probe)
	defer tick.Stop()
	for {
		for _, n := range c.strangers() {
			c.start(func() { c.reconcile(n) })
		}
		select {
		case <-tick.C:
		case <-c.stirred:
		case <-c.life.Done():
			return
		}
	}
}

// heard looks after a node sooner that did not answer and now asks.
func (c *Claims) heard(node int) {
	c.mu.Lock()
	p := c.peers[node]
	silent := p != nil && p.silent
	c.mu.Unlock()
	if silent {
		select {
		case c.stirred <- struct{}{}:
		default:
		}
	}
}

// strangers gives the nodes that are to be reconciled, and forgets those that are
// peers no more.
func (c *Claims) strangers() (found []int) {
	nodes := c.o.Net.Peers()
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[int]*peer{}
	for _, n := range nodes {
		p := c.peerOf(n)
		known[n] = p
		if p.strange && !p.busy {
			p.busy = true
			found = append(found, n)
		}
	}
	c.peers = known
	for key := range c.pending {
		if known[key.from] == nil {
			delete(c.pending, key)
		}
	}
	return found
}
