package sessions

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

const (
	drainsPerPeer  = maxPulls / 2     // sessions that a peer receives from this node at a time
	receiveTimeout = 10 * time.Second // for one session, with its queue
	maxMisses      = 3                // sessions in a row that a peer does not receive, after which it gets no more
)

// Drain moves the sessions of clients that are away to the other nodes, evenly, and returns how
// many moved and how many are left. The sessions of connected clients stay, and those that are in
// doubt. Those with a Will that is not due yet move with it, but not to nodes of older releases.
// Drain ends when no peer takes any more, or with its context. A client that connects to another
// node meanwhile gets its session there, as always; Drain waits until it has.
func (c *Coordinator) Drain(ctx context.Context) (moved, left int) {
	c.draining.Store(true) // of nodes that stop together none gets the sessions of the others
	refusing, refusingWills := map[int]bool{}, map[int]bool{}
	for {
		p, wills := c.drainOnce(ctx, false, refusing), c.drainOnce(ctx, true, refusingWills)
		movedNow := p.moved + wills.moved
		moved, left = moved+movedNow, p.left+wills.left
		more := movedNow > 0 || p.refused || wills.refused
		if waited := c.awaitClaims(ctx); left == 0 || !more && !waited || ctx.Err() != nil {
			return moved, left
		}
	}
}

// EndDrain lets this node take over sessions of nodes that stop again.
func (c *Coordinator) EndDrain() { c.draining.Store(false) }

// awaitClaims waits until no client id is being claimed, and thus no session is on its way to
// another node. It reports whether it had to.
func (c *Coordinator) awaitClaims(ctx context.Context) (waited bool) {
	tick := time.NewTicker(listInterval)
	defer tick.Stop()
	for c.leases.any() {
		waited = true
		select {
		case <-tick.C:
		case <-ctx.Done():
			return waited
		}
	}
	return waited
}

// errStopped refuses requests to a node that stops or is drained.
var errStopped = errors.New("the node stops, or moves its sessions to others")

// Stop announces to the other nodes that this one stops, so that the clients that connect to them
// do not wait for it. From then on it does not respond.
func (c *Coordinator) Stop(ctx context.Context) {
	c.stopping.Store(true)
	nodes, _ := c.reachablePeers()
	var told sync.WaitGroup
	for _, n := range nodes {
		told.Go(func() {
			c.ask(ctx, n, newWriter(kindStop).b) //nolint:errcheck // clients there wait until a request fails
		})
	}
	told.Wait()
	c.stopped.Store(true)
}

// refuses reports whether the node does not respond to a kind of request any more.
func (c *Coordinator) refuses(kind byte) bool {
	return c.stopped.Load() || kind == kindList && c.stopping.Load()
}

// drainPass offers each session to one peer.
type drainPass struct {
	coordinator *Coordinator
	sessions    chan engine.Ownership

	mu          sync.Mutex // guards what follows
	moved, left int
	took        map[int]bool // by peer: whether it took any of those that it was offered
	refused     bool         // a peer took none, after the end of the pass
}

// drainOnce offers the sessions with a Will, or those without one, to the peers that are not in
// refusing, to which it adds those that take none.
func (c *Coordinator) drainOnce(ctx context.Context, withWill bool, refusing map[int]bool) *drainPass {
	p := &drainPass{coordinator: c, sessions: make(chan engine.Ownership), took: map[int]bool{}}
	nodes, _ := c.reachablePeers()
	var workers sync.WaitGroup
	for _, n := range nodes {
		if refusing[n] {
			continue
		}
		for range drainsPerPeer {
			workers.Go(func() { p.sendTo(ctx, n) })
		}
	}
	idle := make(chan struct{}) // closed when no worker is left
	go func() { workers.Wait(); close(idle) }()
	unsent := 0
	for h := range c.movable(withWill) {
		select {
		case p.sessions <- h:
		case <-idle:
			unsent++
		case <-ctx.Done():
			unsent++
		}
	}
	close(p.sessions)
	<-idle
	p.left += unsent
	for n, took := range p.took {
		refusing[n] = !took
		p.refused = p.refused || !took
	}
	return p
}

// movable iterates over the sessions that Drain moves: those with a Will, or those without one.
func (c *Coordinator) movable(withWill bool) iter.Seq[engine.Ownership] {
	return func(yield func(engine.Ownership) bool) {
		for after := ""; ; {
			list := c.list(after)
			for _, h := range list {
				if !h.Connected && h.HasWill == withWill && c.isMovable(h.ClientID) && !yield(h) {
					return
				}
			}
			if len(list) < listSize {
				return
			}
			after = list[len(list)-1].ClientID
		}
	}
}

// sendTo sends sessions to a node until none is left or the node does not receive several in a row.
func (p *drainPass) sendTo(ctx context.Context, node int) {
	for misses := 0; misses < maxMisses; {
		h, more := <-p.sessions
		if !more {
			return
		}
		took := p.coordinator.send(ctx, node, h)
		p.note(node, took)
		if misses++; took {
			misses = 0
		}
	}
}

// note counts a session that was offered to a node.
func (p *drainPass) note(node int, took bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took[node] = p.took[node] || took
	if took {
		p.moved++
	} else {
		p.left++
	}
}

// send has a peer take over a session. It reports whether the session is no longer here.
func (c *Coordinator) send(ctx context.Context, node int, h engine.Ownership) bool {
	bounded, cancel := context.WithTimeout(ctx, receiveTimeout)
	defer cancel()
	_, err := c.o.Net.Ask(bounded, node, encodeReceive(h))
	if _, gone := c.o.Engine.Ownership(h.ClientID); gone != nil {
		return true
	}
	if err != nil {
		c.o.Log.Debug("a node did not take over a session", "node", node, "clientid", h.ClientID, "error", err)
	}
	return false
}

// receive takes over a session that another node wants to be rid of, unless its client is
// connecting to a node. The session of a client that has one here as well is left to
// reconciling.
func (c *Coordinator) receive(ctx context.Context, from int, remote engine.Ownership) error {
	if c.draining.Load() {
		return errStopped
	}
	select {
	case c.pullSlots <- struct{}{}:
		defer func() { <-c.pullSlots }()
	case <-ctx.Done():
		return fmt.Errorf("wait for other sessions: %w", context.Cause(ctx))
	}
	t, err := c.leases.acquire(ctx, c.ctx, remote.ClientID, leaseOrder{remote.Timestamp, c.o.Self})
	if err != nil {
		return err
	}
	defer t.release()
	defer context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })()
	if _, err := c.o.Engine.Ownership(remote.ClientID); err == nil || c.doubtAbout(remote.ClientID) != nil {
		c.markUnreconciled(from)
		return errors.New("there is a session of the client id here")
	}
	claim := engine.Claim{ClientID: remote.ClientID, Timestamp: remote.Timestamp, KeepWill: remote.HasWill}
	o, err := c.claimAt(t.ctx, from, claimRequest{Claim: claim, anyUser: true})
	if err != nil {
		return err
	}
	t.addOffer(o)
	o.adjustTimes(c.o.ClockOffset(from))
	imported, err := c.takeOver(t, []peerOffer{o})
	imported.finish()
	nodes, _ := c.o.Net.Peers()
	c.markUnreconciled(nodes...) // the client may have begun another session where that node could not be reached
	return err
}
