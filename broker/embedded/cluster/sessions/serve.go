package sessions

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/embedded/engine"
)

// Serve returns the response to a request of another node.
func (c *Coordinator) Serve(ctx context.Context, from int, request []byte) ([]byte, error) {
	r, kind := newReader(request)
	if c.refuses(kind) {
		return nil, errStopped
	}
	c.noteContact(from)
	switch kind {
	case kindReceive, kindReceiveWill, kindStop:
		return c.serveStopping(ctx, from, kind, r)
	case kindClaim, kindClaimWill:
		return c.decodeAndServeClaim(ctx, from, kind, r)
	case kindFetch, kindConfirm, kindCancel:
		q, err := decodeTransfer(r)
		if err != nil {
			return nil, err
		}
		return c.serveTransfer(ctx, from, kind, q)
	case kindReceived:
		q, err := decodeReceivedRequest(r)
		if err != nil {
			return nil, err
		}
		return c.serveReceived(from, q), nil
	case kindStatus:
		q, err := decodeStatus(r)
		if err != nil {
			return nil, err
		}
		return c.status(from, q).encode(kind), nil
	case kindFlush:
		to, err := decodeFlush(r)
		if err != nil {
			return nil, err
		}
		return c.serveFlush(ctx, from, to), nil
	case kindList, kindPull:
		clientID, err := decodeClientID(r)
		if err != nil {
			return nil, err
		}
		return c.serveClientID(ctx, from, kind, clientID), nil
	}
	return nil, errFormat
}

func (c *Coordinator) decodeAndServeClaim(ctx context.Context, from int, kind byte, r *reader) ([]byte, error) {
	q, err := decodeClaim(kind, r)
	if err != nil {
		return nil, err
	}
	if summary, err := c.o.Engine.Ownership(q.ClientID); q.anyUser && err == nil {
		q.Username, q.Anonymous = summary.Username, summary.Anonymous
	}
	return c.serveClaim(ctx, from, q.Claim), nil
}

// serveStopping serves a request of a node that is about to stop.
func (c *Coordinator) serveStopping(ctx context.Context, from int, kind byte, r *reader) ([]byte, error) {
	if kind == kindStop {
		if err := r.finish(); err != nil {
			return nil, err
		}
		c.markUnreachable(from)
		return reply{status: replyDone}.encode(kind), nil
	}
	h, err := decodeReceive(kind, r)
	if err == nil {
		err = c.receive(ctx, from, h)
	}
	return reply{status: replyDone}.encode(kind), err
}

// serveFlush waits until nodes have all messages sent from here, and until the messages of clients are
// answered whose sessions are offered to the requester, but not past its timeout.
func (c *Coordinator) serveFlush(ctx context.Context, from int, to []int) []byte {
	ctx, cancel := context.WithTimeout(ctx, c.o.RequestTimeout/2)
	defer cancel()
	err := c.flush(ctx, to)
	for _, h := range c.offeredTo(from) {
		err = errors.Join(err, h.session.AwaitAnswers(ctx))
	}
	if err != nil {
		return reply{status: replyBusy}.encode(kindFlush)
	}
	return reply{status: replyDone}.encode(kindFlush)
}

// offeredTo returns the handoffs to a node.
func (c *Coordinator) offeredTo(node int) (found []*handoff) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.handoffs {
		if h.to == node {
			found = append(found, h)
		}
	}
	return found
}

// serveClientID serves a list or pull request.
func (c *Coordinator) serveClientID(ctx context.Context, from int, kind byte, clientID string) []byte {
	if kind == kindList {
		return encodeListResponse(c.list(clientID))
	}
	select {
	case c.pullSlots <- struct{}{}:
	case <-ctx.Done():
		return reply{status: replyBusy}.encode(kind)
	}
	started := c.startTask(func() {
		defer func() { <-c.pullSlots }()
		if err := c.pull(from, clientID); err != nil {
			c.o.Log.Debug("a session is at two nodes", "node", from, "error", err)
			c.markUnreconciled(from)
		}
	})
	if !started {
		<-c.pullSlots
	}
	return reply{status: replyDone}.encode(kind)
}

// serveClaim ends the connection of a client id and offers its session.
func (c *Coordinator) serveClaim(ctx context.Context, from int, claim engine.Claim) []byte {
	c.o.Engine.ObserveTimestamp(claim.Timestamp)
	t, err := c.leases.acquire(ctx, c.ctx, claim.ClientID, leaseOrder{claim.Timestamp, from})
	if err != nil {
		return c.claimFailure(err)
	}
	if from < c.o.Self { // of two CONNECTs with the same timestamp, the one at the greater node is later
		claim.Timestamp--
	}
	bounded, cancel := context.WithCancel(t.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	session, err := c.yield(bounded, claim)
	if err != nil {
		t.release()
		return c.claimFailure(err)
	}
	kind := byte(kindClaim)
	if claim.KeepWill {
		kind = kindClaimWill
	}
	return c.startHandoff(kind, from, t, session)
}

// yield returns the session that another node has claimed, unless it stays in doubt.
func (c *Coordinator) yield(ctx context.Context, claim engine.Claim) (*engine.Handover, error) {
	h := c.doubtAbout(claim.ClientID)
	if h != nil && !claim.CleanStart {
		bounded, cancel := context.WithTimeout(ctx, c.o.RequestTimeout/2) // the other node waits for the response
		defer cancel()
		if err := c.resolveDoubt(bounded, h); err != nil {
			return nil, err
		}
	}
	session, err := c.o.Engine.Yield(ctx, claim)
	if h != nil && errors.Is(err, engine.ErrNoClient) { // it has ended
		c.removeDoubt(h)
	}
	return session, err
}

// claimFailure returns the response to a claim that is offered nothing.
func (c *Coordinator) claimFailure(err error) []byte {
	a := claimResponse{kind: kindClaim, outcome: outcomeNone}
	switch {
	case errors.Is(err, engine.ErrNoClient), errors.Is(err, errInDoubt):
	case errors.Is(err, engine.ErrLater):
		a.outcome = outcomeSuperseded
	case errors.Is(err, engine.ErrForeign):
		a.outcome = outcomeOtherUser
	default:
		c.o.Log.Debug("cannot offer a session to another node", "error", err)
		a.outcome = outcomeBusy
	}
	return a.encode()
}

// serveTransfer serves a request about a handoff.
func (c *Coordinator) serveTransfer(ctx context.Context, from int, kind byte, q transferRequest) ([]byte, error) {
	c.mu.Lock()
	h := c.handoffs[q.id]
	c.mu.Unlock()
	if known := h != nil && h.to == from; !known && kind == kindFetch {
		return chunk{}.encode(), nil
	} else if !known {
		return reply{status: replyUnknown}.encode(kind), nil
	}
	switch kind {
	case kindFetch:
		ctx, cancel := context.WithTimeout(ctx, c.o.RequestTimeout/2)
		defer cancel()
		return h.fetch(ctx, q), nil
	case kindConfirm:
		if !c.complete(h, q.after) {
			return reply{status: replyMore}.encode(kind), nil
		}
		c.removeDoubt(h)
	case kindCancel:
		c.keep(h)
	}
	h.decide()
	select {
	case <-h.lease.done: // the client id is free when the other node gets the response
	case <-ctx.Done():
	}
	return reply{status: replyDone}.encode(kind), nil
}

// serveReceived returns what a session that is offered to a node has received of the messages of others.
func (c *Coordinator) serveReceived(from int, q receivedRequest) []byte {
	c.mu.Lock()
	h := c.handoffs[q.id]
	c.mu.Unlock()
	if h == nil || h.to != from {
		return received{}.encode()
	}
	return h.received(q.nodes).encode()
}

// status reports whether a session offered by another node was imported here.
func (c *Coordinator) status(from int, q statusRequest) reply {
	c.mu.Lock()
	f, arrived := c.unconfirmed[transferKey{from, q.transferID}]
	c.mu.Unlock()
	switch {
	case arrived:
		return reply{status: replyDone, upTo: f.upTo}
	case c.leases.hasOffer(q.clientID, transferKey{from, q.transferID}):
		return reply{status: replyBusy}
	}
	return reply{status: replyUnknown}
}

// flush waits until other nodes have all messages that were sent to them.
func (c *Coordinator) flush(ctx context.Context, to []int) error {
	if err := c.o.Engine.AwaitRouted(ctx); err != nil {
		return fmt.Errorf("wait until accepted messages are sent: %w", err)
	}
	for _, n := range to {
		if n == c.o.Self {
			continue
		}
		if err := c.o.Flush(ctx, n); err != nil {
			return fmt.Errorf("wait until node %d has received all messages: %w", n, err)
		}
	}
	return nil
}
