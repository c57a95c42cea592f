package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"signalbox/broker/embedded/engine"
)

const (
	listSize     = 500                   // sessions in a list
	listInterval = 10 * time.Millisecond // between lists
)

// reconcile ensures that no session is both here and at a node that was unreachable or is new.
func (c *Coordinator) reconcile(node int) {
	c.mu.Lock()
	generation := c.peerState(node).generation
	c.mu.Unlock()
	complete := c.reconcileAll(node)
	c.mu.Lock()
	p := c.peerState(node)
	p.reconciling, p.unreconciled = false, !complete || p.generation != generation
	if !p.unreconciled {
		c.dropParts(func(at int) bool { return at == node })
	}
	settled := true
	for _, p := range c.peers {
		settled = settled && !p.unreachable && !p.unreconciled
	}
	c.mu.Unlock()
	if settled { // there are no older sessions
		c.o.Engine.ForgetDirect()
	}
}

// reconcileAll compares all sessions of a node with those here. It reports whether all pairs
// were resolved.
func (c *Coordinator) reconcileAll(node int) bool {
	complete := true
	pause := time.NewTicker(listInterval)
	defer pause.Stop()
	for after, first := "", true; ; first = false {
		b, err := c.ask(c.ctx, node, encodeListRequest(after))
		if err != nil {
			return false
		}
		list, err := decodeListResponse(b)
		if err != nil {
			c.o.Log.Warn("a response of another node cannot be decoded", "node", node, "error", err)
			return false
		}
		if first {
			c.markReachable(node)
			if err := c.barrier(c.ctx, []int{c.o.Self, node}); err != nil { // what waits for older sessions must be in them
				c.o.Log.Debug("messages for a node are still under way", "node", node, "error", err)
				return false
			}
			complete = c.resolveDoubts(node)
		}
		for _, h := range list {
			if err := c.reconcileSession(node, h); err != nil {
				c.o.Log.Debug("a session is at two nodes", "node", node, "error", err)
				complete = false
			}
		}
		if len(list) < listSize {
			return complete
		}
		after = list[len(list)-1].ClientID
		select {
		case <-pause.C:
		case <-c.ctx.Done():
			return false
		}
	}
}

// markReachable records that a node responds, and repeats the confirmations it has not
// acknowledged.
func (c *Coordinator) markReachable(node int) {
	c.mu.Lock()
	if p := c.peers[node]; p != nil {
		p.unreachable = false
	}
	var unconfirmed []confirmation
	for key, f := range c.unconfirmed {
		if key.from == node {
			unconfirmed = append(unconfirmed, f)
		}
	}
	c.mu.Unlock()
	for _, f := range unconfirmed {
		c.confirm(f.offer, f.upTo)
	}
}

// reconcileSession leaves one of two sessions of a client id.
func (c *Coordinator) reconcileSession(node int, remote engine.Ownership) error {
	if c.leases.held(remote.ClientID) { // and perhaps about to be here
		return errors.New("the client id is being claimed")
	}
	local, err := c.o.Engine.Ownership(remote.ClientID)
	switch {
	case err != nil:
		return nil //nolint:nilerr // there is no session here
	case c.doubtAbout(remote.ClientID) != nil:
		return nil // they are compared when the doubt is resolved
	case !c.yieldsTo(local, node, remote):
		return c.pull(node, remote.ClientID)
	}
	b, err := c.ask(c.ctx, node, encodePull(remote.ClientID))
	if err != nil {
		return err
	}
	if a, err := decodeReply(b); err != nil || a.status != replyDone {
		return fmt.Errorf("node %d did not start to take over a session", node)
	}
	if c.hasPart(remote.ClientID) {
		return fmt.Errorf("node %d has yet to take over a session", node)
	}
	return nil
}

// yieldsTo reports whether the local session yields to a remote one: the one whose client is
// connected stays, else the one connected later.
func (c *Coordinator) yieldsTo(local engine.Ownership, node int, remote engine.Ownership) bool {
	if local.Connected != remote.Connected {
		return remote.Connected
	}
	return leaseOrder{local.Timestamp, c.o.Self}.before(leaseOrder{remote.Timestamp, node})
}

// pull takes over a session that yields to the local one. If both are parts of one session they are
// merged; otherwise the other one is replaced.
func (c *Coordinator) pull(node int, clientID string) error {
	ctx, cancel := context.WithTimeout(c.ctx, maxClaim)
	defer cancel()
	local, err := c.o.Engine.Ownership(clientID)
	if err != nil {
		return err
	}
	t, err := c.leases.acquire(ctx, c.ctx, clientID, leaseOrder{local.Timestamp, c.o.Self})
	if err != nil {
		return err
	}
	defer t.release()
	defer context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })()
	if now, err := c.o.Engine.Ownership(clientID); err != nil || now.Timestamp != local.Timestamp || c.doubtAbout(clientID) != nil {
		return errTransferEnded
	} else {
		local = now
	}
	claim := engine.Claim{ClientID: clientID, Timestamp: local.Timestamp, KeepWill: true}
	o, err := c.claimAt(t.ctx, node, claimRequest{Claim: claim, anyUser: true})
	if err != nil {
		return err
	}
	t.addOffer(o)
	c.counts.reconciled.Add(1)
	if o.state.CreatedAt != local.CreatedAt || o.state.Username != local.Username {
		err = c.replace(t, local, o)
	} else if err = c.merge(t, local, o); err != nil {
		err = fmt.Errorf("merge with the part at node %d: %w", node, err)
	}
	if err != nil {
		c.cancelOffers([]peerOffer{o})
	}
	return err
}

// replace ends a session that was replaced by the local one. What is queued there and inherited goes
// behind the queue here.
func (c *Coordinator) replace(t *lease, local engine.Ownership, o peerOffer) error {
	remote := o.ownership()
	if alternated(remote, local) {
		if err := c.endLocal(t.ctx, local); err != nil {
			return err
		}
	} else if inherits(local, remote) {
		done := c.o.Engine.WatchDuplicates(local.ClientID)
		defer c.afterDuplicates(done)
		part := &engine.StoredSession{}
		if err := c.fetch(t.ctx, o, 0, part); err != nil {
			return err
		}
		received := c.o.Engine.ReceivedDirectly(local.ClientID)
		return c.appendQueue(c.o.Engine.Inherit, local.ClientID, inherited(part.Queue, local.CreatedAt, received), o, part)
	}
	if c.confirm(o, allMessages) == replyUnknown { // without a response, the node asks for the status
		return errTransferEnded
	}
	return nil
}

// inherits reports whether a client's session gets what is queued in an older one, which it could
// not be given when it connected. With Clean Start it did not want that.
func inherits(current, older engine.Ownership) bool {
	return !current.CleanStart && current.Username == older.Username && current.Anonymous == older.Anonymous
}

// inherited returns the messages of an older session that the client gets in its current one, which
// has a creation time: those above QoS 0 that it may not have. If it is not known what that one
// has received, everything that came from another node later may have been sent to both, and is
// left out at QoS 2.
func inherited(queue []engine.QueueRecord, created int64, received func(*engine.QueueRecord) bool) []engine.QueueRecord {
	if received == nil {
		received = func(r *engine.QueueRecord) bool {
			return r.QoS == 2 && r.Message.Stamp != 0 && r.Message.CreatedAt > created
		}
	}
	return slices.DeleteFunc(slices.Clone(queue), func(r engine.QueueRecord) bool {
		return r.QoS == 0 || r.Released || received(&r)
	})
}

// endLocal ends a session of this node, and its connection, unless that is a later one.
func (c *Coordinator) endLocal(ctx context.Context, local engine.Ownership) error {
	c.o.Engine.Disconnect(local.ClientID) //nolint:errcheck // it may not be connected
	h, err := c.o.Engine.Yield(ctx, engine.Claim{ClientID: local.ClientID, Username: local.Username, Anonymous: local.Anonymous, Timestamp: local.Timestamp})
	switch {
	case errors.Is(err, engine.ErrNoClient):
		return nil
	case err != nil:
		return fmt.Errorf("end a session that was replaced and used again: %w", err)
	}
	c.discard(h)
	return nil
}

// claimAt claims a client id at one node. A node of an older release does not know claims with
// KeepWill: its session comes without the Will.
func (c *Coordinator) claimAt(ctx context.Context, node int, q claimRequest) (peerOffer, error) {
	b, err := c.askNew(ctx, node, q.encode())
	if errors.Is(err, ErrRefused) {
		q.KeepWill = false
		b, err = c.ask(ctx, node, q.encode())
	}
	if err != nil {
		return peerOffer{}, err
	}
	a, err := decodeClaimResponse(b)
	if err == nil && a.outcome != outcomeOffered {
		err = errTransferEnded
	}
	return peerOffer{node, a.offer}, err
}

// merge moves a part of a session to the part that is here. While the client is connected, the
// messages are appended to its queue. If some are in flight it is disconnected instead, and the
// parts are merged afterwards: these are sent again after CONNACK only [MQTT-4.4.0-1].
func (c *Coordinator) merge(t *lease, local engine.Ownership, o peerOffer) error {
	if !local.Connected {
		imported, err := c.takeOver(t, []peerOffer{o})
		imported.finish()
		return err
	}
	done := c.o.Engine.WatchDuplicates(local.ClientID)
	defer c.afterDuplicates(done)
	part := &engine.StoredSession{}
	if err := c.fetch(t.ctx, o, 0, part); err != nil {
		return err
	}
	if inFlight(part) {
		c.o.Engine.Disconnect(local.ClientID) //nolint:errcheck // it may have disconnected
		return errors.New("the client has to reconnect, since messages for it are in flight")
	}
	has := c.askReceived(t, o, nil)
	c.o.Engine.AddDirect(local.ClientID, has.direct, has.knowsDirect)
	return c.appendQueue(c.o.Engine.Append, local.ClientID, part.Queue, o, part)
}

// appendQueue appends messages of a part of an offered session to the queue of the session here, by a method of the
// engine, and confirms all of the part.
func (c *Coordinator) appendQueue(do func(string, []engine.QueueRecord) error, clientID string, messages []engine.QueueRecord, o peerOffer, part *engine.StoredSession) error {
	if err := do(clientID, messages); err != nil {
		return err
	}
	upTo := uint64(allMessages)
	if n := len(part.Queue); n > 0 {
		upTo = part.Queue[n-1].Seq
	}
	switch c.confirm(o, upTo) {
	case replyMore:
		return errors.New("more messages were queued meanwhile")
	case replyUnknown: // without a response, the node asks for the status
		return errTransferEnded
	}
	return nil
}

// inFlight reports whether some messages of a part were sent, and are not acknowledged.
func inFlight(part *engine.StoredSession) bool {
	return slices.ContainsFunc(part.Queue, func(r engine.QueueRecord) bool { return r.Released || r.Seq <= part.SentSeq })
}
