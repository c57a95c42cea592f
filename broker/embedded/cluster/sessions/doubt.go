package sessions

import (
	"context"
	"errors"
	"slices"
	"time"

	"signalbox/broker/embedded/engine"
)

// errInDoubt means that a session was sent to a node that does not respond, and that may have
// served the client with it since. The copy here does not know what was sent there, so the
// client cannot be served with it [MQTT-4.3.3-1].
var errInDoubt = errors.New("the session may be at a node that does not respond")

// doubtAbout returns the handoff that left a session in doubt, nil for none.
func (c *Coordinator) doubtAbout(clientID string) *handoff {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inDoubt[clientID]
}

// removeDoubt removes a handoff whose outcome is known. It reports whether the session was in
// doubt.
func (c *Coordinator) removeDoubt(h *handoff) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inDoubt[h.lease.clientID] != h {
		return false
	}
	delete(c.inDoubt, h.lease.clientID)
	delete(c.handoffs, h.id)
	return true
}

// resolveDoubt asks the node that may have a session, and drops or keeps the session here
// accordingly. It returns errInDoubt if that node does not respond.
func (c *Coordinator) resolveDoubt(ctx context.Context, h *handoff) error {
	if _, unreachable := c.reachablePeers(); slices.Contains(unreachable, h.to) {
		return errInDoubt
	}
	for delay := minRetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		switch c.askStatus(ctx, h) {
		case 0:
			return errInDoubt
		case replyBusy:
		default:
			return nil
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return errBusy
		}
	}
}

// resolveForClient is resolveDoubt for a client that connects here. A session that stays in doubt
// ends, and the client is told that it has none.
func (c *Coordinator) resolveForClient(t *lease, claim engine.Claim) error {
	h := c.doubtAbout(claim.ClientID)
	if h == nil {
		return nil
	}
	if !claim.CleanStart && !slices.Contains(t.skipped, h.to) {
		if err := c.resolveDoubt(t.ctx, h); !errors.Is(err, errInDoubt) {
			return err
		}
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
	}
	if local, err := c.o.Engine.Ownership(claim.ClientID); err == nil && (local.Username != claim.Username || local.Anonymous != claim.Anonymous) {
		return engine.ErrForeign
	}
	c.endDoubt(h, claim.CleanStart)
	return nil
}

// endDoubt ends a session whose doubt cannot be resolved. What it has queued is reported as
// discarded, unless the client has asked for that.
func (c *Coordinator) endDoubt(h *handoff, asked bool) {
	h.mu.Lock()
	switch {
	case h.ended:
	case asked:
		h.session.End(allMessages)
	default:
		c.discard(h.session)
	}
	h.ended = true
	h.mu.Unlock()
	c.removeDoubt(h)
}

// doubts returns the handoffs to nodes that left sessions in doubt.
func (c *Coordinator) doubts(to func(node int) bool) (found []*handoff) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.inDoubt {
		if to(h.to) {
			found = append(found, h)
		}
	}
	return found
}

// resolveDoubts asks a node about all sessions that it may have. It reports whether none is
// in doubt any more.
func (c *Coordinator) resolveDoubts(node int) bool {
	complete := true
	for _, h := range c.doubts(func(to int) bool { return to == node }) {
		switch c.askStatus(c.ctx, h) {
		case 0:
			return false
		case replyBusy:
			complete = false
		}
	}
	return complete
}

// list returns sessions behind a client id, in order of client ids, without those in doubt.
func (c *Coordinator) list(after string) (found []engine.Ownership) {
	for {
		page := c.o.Engine.Ownerships(after, listSize)
		for _, h := range page {
			if c.doubtAbout(h.ClientID) == nil {
				found = append(found, h)
			}
		}
		switch {
		case len(page) < listSize:
			return found
		case len(found) >= listSize:
			return found[:listSize]
		}
		after = page[len(page)-1].ClientID
	}
}
