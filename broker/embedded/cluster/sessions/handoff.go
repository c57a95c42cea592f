package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// Bounds of handoffs.
const (
	maxHandoffs = 4096    // handoffs at a time; further claims fail
	maxPulls    = 16      // sessions pulled for other nodes at a time; further requests wait
	pageSize    = 1 << 20 // approximate size of a page of a queue, in bytes
	chunkSize   = 8 << 20 // bytes of a page in one response
)

// allMessages is a sequence number above that of any message: it confirms a session with
// everything queued.
const allMessages = maxSeq

// handoff is a session that is offered to another node.
type handoff struct {
	lease *lease
	id    uint64
	to    int

	mu          sync.Mutex // guards what follows; held during calls to the session's engine
	session     *engine.Handover
	sentSeq     uint64
	incoming    []uint16
	frozen      bool
	ended       bool // complete or cancelled
	lastContact time.Time
	page        []byte // the page encoded last
	pageAfter   uint64 // the sequence number that the page begins after

	decided chan struct{} // closed when the handoff is complete or cancelled
	once    sync.Once
}

// decide wakes runHandoff.
func (h *handoff) decide() { h.once.Do(func() { close(h.decided) }) }

// Serve returns the response to a request of another node.
func (c *Coordinator) Serve(ctx context.Context, from int, request []byte) ([]byte, error) {
	c.noteContact(from)
	r, kind := newReader(request)
	switch kind {
	case kindClaim:
		q, err := decodeClaim(r)
		if err != nil {
			return nil, err
		}
		if summary, err := c.o.Engine.Ownership(q.ClientID); q.anyUser && err == nil {
			q.Username, q.Anonymous = summary.Username, summary.Anonymous
		}
		return c.serveClaim(ctx, from, q.Claim), nil
	case kindFetch, kindConfirm, kindCancel:
		q, err := decodeTransfer(r)
		if err != nil {
			return nil, err
		}
		return c.serveTransfer(ctx, from, kind, q)
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
		return c.serveFlush(ctx, to), nil
	case kindList, kindPull:
		clientID, err := decodeClientID(r)
		if err != nil {
			return nil, err
		}
		return c.serveClientID(ctx, from, kind, clientID), nil
	}
	return nil, errFormat
}

// serveFlush waits until nodes have all messages sent from here, but not past the requester's
// timeout.
func (c *Coordinator) serveFlush(ctx context.Context, to []int) []byte {
	ctx, cancel := context.WithTimeout(ctx, c.o.RequestTimeout/2)
	defer cancel()
	if err := c.flush(ctx, to); err != nil {
		return reply{status: replyBusy}.encode(kindFlush)
	}
	return reply{status: replyDone}.encode(kindFlush)
}

// serveClientID serves a list or pull request.
func (c *Coordinator) serveClientID(ctx context.Context, from int, kind byte, clientID string) []byte {
	if kind == kindList {
		return encodeListResponse(c.o.Engine.Ownerships(clientID, listSize))
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
	session, err := c.o.Engine.Yield(bounded, claim)
	if err != nil {
		t.release()
		return c.claimFailure(err)
	}
	return c.startHandoff(from, t, session)
}

// claimFailure returns the response to a claim that is offered nothing.
func (c *Coordinator) claimFailure(err error) []byte {
	a := claimResponse{outcome: outcomeNone}
	switch {
	case errors.Is(err, engine.ErrNoClient):
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

// startHandoff offers a session to another node and holds it.
func (c *Coordinator) startHandoff(to int, t *lease, session *engine.Handover) []byte {
	h := &handoff{lease: t, to: to, session: session, lastContact: time.Now(), decided: make(chan struct{})}
	a := claimResponse{outcome: outcomeOffered}
	a.offer.state, a.offer.next = session.State()
	a.offer.arrival, h.sentSeq = session.Ownership().Timestamp, a.offer.state.SentSeq
	c.mu.Lock()
	full := len(c.handoffs) >= maxHandoffs
	if !full {
		c.nextTransfer++
		h.id = c.nextTransfer
		c.handoffs[h.id] = h
	}
	c.mu.Unlock()
	a.offer.transferID = h.id
	if full || !c.startTask(func() { c.runHandoff(h) }) {
		c.endHandoff(h)
		return c.claimFailure(fmt.Errorf("more than %d handoffs, or the node is closing", maxHandoffs))
	}
	return a.encode()
}

// runHandoff waits until a handoff is complete, cancelled or superseded. It asks the other
// node for the status if that is not heard from.
func (c *Coordinator) runHandoff(h *handoff) {
	defer c.endHandoff(h)
	timer := time.NewTimer(c.o.HandoffTimeout)
	defer timer.Stop()
	for {
		select {
		case <-h.decided:
			return
		case <-h.lease.ctx.Done():
			return
		case <-timer.C:
		}
		if left := h.untilTimeout(c.o.HandoffTimeout); left > 0 {
			timer.Reset(left)
			continue
		}
		if !c.askStatus(h) {
			return
		}
		timer.Reset(c.o.HandoffTimeout)
	}
}

// untilTimeout returns how much longer the other node may stay without contact.
func (h *handoff) untilTimeout(timeout time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return timeout - time.Since(h.lastContact)
}

// askStatus asks the other node whether it has the session. It reports whether to continue
// waiting.
func (c *Coordinator) askStatus(h *handoff) bool {
	b, err := c.ask(h.lease.ctx, h.to, statusRequest{h.lease.clientID, h.id}.encode())
	if err != nil {
		return false
	}
	a, err := decodeReply(b)
	if err == nil && a.status == replyDone {
		c.complete(h, a.upTo)
	}
	return err == nil && a.status == replyBusy
}

// endHandoff ends a handoff. Unless it is complete, the session stays.
func (c *Coordinator) endHandoff(h *handoff) {
	h.decide()
	h.mu.Lock()
	if !h.ended {
		c.counts.kept.Add(1)
		h.session.Keep()
	}
	h.ended = true
	h.mu.Unlock()
	c.mu.Lock()
	delete(c.handoffs, h.id)
	c.mu.Unlock()
	h.lease.release()
}

// complete removes a session that was imported elsewhere with its messages up to a sequence
// number. It reports false if more messages have been queued since.
func (c *Coordinator) complete(h *handoff, upTo uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return true
	}
	unsent := 0
	if upTo == allMessages {
		unsent = h.session.Unsent()
	}
	if !h.session.End(upTo) {
		return false
	}
	c.o.Discarded(h.to, unsent)
	h.ended = true
	c.counts.handedOver.Add(1)
	return true
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
	}
	h.decide()
	select {
	case <-h.lease.done: // the client id is free when the other node gets the response
	case <-ctx.Done():
	}
	return reply{status: replyDone}.encode(kind), nil
}

// errTransferEnded means that a session is not offered, or not any more.
var errTransferEnded = errors.New("the session is not offered any more")

// fetch returns a chunk of the page that follows a sequence number. The first fetch freezes
// the session.
func (h *handoff) fetch(ctx context.Context, q transferRequest) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return chunk{}.encode()
	}
	h.lastContact = time.Now()
	if h.page == nil || h.pageAfter != q.after || q.offset == 0 {
		if !h.frozen {
			h.incoming, h.frozen = h.session.Freeze(ctx), true
		}
		p := page{sentSeq: h.sentSeq}
		if q.after == 0 {
			p.incoming = h.incoming
		}
		var err error
		if p.queue, p.more, err = h.session.Queue(q.after, pageSize); err != nil {
			return chunk{}.encode() // the session stays here
		}
		h.page, h.pageAfter = p.encode(), q.after
	}
	rest := h.page[min(q.offset, uint64(len(h.page))):]
	return chunk{total: uint64(len(h.page)), bytes: rest[:min(len(rest), chunkSize)]}.encode()
}

// status reports whether a session offered by another node was imported here.
func (c *Coordinator) status(from int, q statusRequest) reply {
	c.mu.Lock()
	f, arrived := c.unconfirmed[transferKey{from, q.transferID}]
	c.mu.Unlock()
	switch {
	case arrived:
		return reply{status: replyDone, upTo: f.upTo}
	case c.leases.held(q.clientID):
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
