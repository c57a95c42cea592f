package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/embedded/engine"
)

const (
	listSize  = 500                   // sessions in a list
	listEvery = 10 * time.Millisecond // pause between lists
)

// reconcile brings the sessions of this node and of one that was not heard of for
// a while, or never, in agreement: of each pair one stays.
func (c *Claims) reconcile(node int) {
	c.mu.Lock()
	before := c.peerOf(node).doubts
	c.mu.Unlock()
	agreed := c.compareAll(node)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peerOf(node)
	p.busy, p.strange = false, !agreed || p.doubts != before
}

// compareAll goes through the sessions of a node. It tells whether it came to the
// end.
func (c *Claims) compareAll(node int) bool {
	agreed := true
	pause := time.NewTicker(listEvery)
	defer pause.Stop()
	for after, first := "", true; ; first = false {
		b, err := c.ask(c.life, node, encodeList(after))
		if err != nil {
			return false
		}
		list, err := decodeHoldings(b)
		if err != nil {
			c.o.Log.Warn("an answer of another node cannot be read", "node", node, "error", err)
			return false
		}
		if first {
			c.welcome(node)
		}
		for _, h := range list {
			if err := c.compare(node, h); err != nil {
				c.o.Log.Debug("a session is at two nodes", "node", node, "error", err)
				agreed = false
			}
		}
		if len(list) < listSize {
			return agreed
		}
		after = list[len(list)-1].ClientID
		select {
		case <-pause.C:
		case <-c.life.Done():
			return false
		}
	}
}

// welcome notes that a node answers, and tells it which of its sessions have
// arrived.
func (c *Claims) welcome(node int) {
	c.mu.Lock()
	if p := c.peers[node]; p != nil {
		p.silent = false
	}
	var left []farewell
	for key, f := range c.pending {
		if key.from == node {
			left = append(left, f)
		}
	}
	c.mu.Unlock()
	for _, f := range left {
		c.farewell(f.offered, f.upTo)
	}
}

// compare sees to it that one of two sessions of a client id stays.
func (c *Claims) compare(node int, theirs engine.Holding) error {
	if c.turns.busy(theirs.ClientID) { // and perhaps about to be here
		return errors.New("it is being claimed")
	}
	own, err := c.o.Engine.Holding(theirs.ClientID)
	switch {
	case err != nil:
		return nil //nolint:nilerr // it is not here, so all is well
	case !c.behind(own, node, theirs):
		return c.draw(node, theirs.ClientID)
	}
	b, err := c.ask(c.life, node, encodePull(theirs.ClientID))
	if err != nil {
		return err
	}
	if a, err := decodeReply(b); err != nil || a.what != replyDone {
		return fmt.Errorf("have node %d take a session over: it does not", node)
	}
	return nil
}

// behind tells whether this node's session gives way to another node's: to one
// whose client is connected, else to the one that was connected later.
func (c *Claims) behind(own engine.Holding, node int, theirs engine.Holding) bool {
	if own.Connected != theirs.Connected {
		return theirs.Connected
	}
	return rank{own.Arrival, c.o.Self}.before(rank{theirs.Arrival, node})
}

// draw takes over a session that is behind this node's of the same client id. If
// it is the same session, what waits for it comes here; otherwise it ends.
func (c *Claims) draw(node int, clientID string) error {
	ctx, cancel := context.WithTimeout(c.life, maxClaim)
	defer cancel()
	own, err := c.o.Engine.Holding(clientID)
	if err != nil {
		return err
	}
	t, err := c.turns.begin(ctx, c.life, clientID, rank{own.Arrival, c.o.Self})
	if err != nil {
		return err
	}
	defer t.end()
	defer context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })()
	if now, err := c.o.Engine.Holding(clientID); err != nil || now.Arrival != own.Arrival {
		return errGone
	} else {
		own = now
	}
	claim := engine.Claim{ClientID: clientID, Arrival: own.Arrival}
	o, err := c.askOne(t.ctx, node, claimRequest{Claim: claim, anyUser: true})
	if err != nil {
		return err
	}
	c.counts.reconciled.Add(1)
	if o.state.CreatedAt != own.CreatedAt || o.state.Username != own.Username {
		if c.farewell(o, everything) == replyUnknown { // without an answer, the node asks
			return errGone
		}
		return nil
	}
	if err := c.unite(t, own, o); err != nil {
		c.keepAll([]offered{o})
		return fmt.Errorf("unite it with the part at node %d: %w", node, err)
	}
	return nil
}

// askOne claims a client id at one node.
func (c *Claims) askOne(ctx context.Context, node int, q claimRequest) (offered, error) {
	b, err := c.ask(ctx, node, q.encode())
	if err != nil {
		return offered{}, err
	}
	a, err := decodeClaimAnswer(b)
	if err == nil && a.outcome != outcomeGiven {
		err = errGone
	}
	return offered{node, a.gift}, err
}

// unite brings a part of a session here whose other part is here already. While
// its client is connected, what waited comes behind all else.
func (c *Claims) unite(t *turn, own engine.Holding, o offered) error {
	if !own.Connected {
		adopted, err := c.takeOver(t, []offered{o})
		adopted.settle()
		return err
	}
	part := &engine.StoredSession{}
	if err := c.fetch(t.ctx, o, 0, part); err != nil {
		return err
	}
	if err := c.o.Engine.Append(own.ClientID, part.Queue); err != nil {
		return err
	}
	upTo := uint64(everything)
	if n := len(part.Queue); n > 0 {
		upTo = part.Queue[n-1].Seq
	}
	switch c.farewell(o, upTo) {
	case replyMore:
		return errors.New("more has come meanwhile")
	case replyUnknown: // without an answer, the node asks
		return errGone
	}
	return nil
}
