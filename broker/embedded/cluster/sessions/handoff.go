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
	fetched     bool // as a whole: the other node may have imported it
	ended       bool // complete or cancelled
	lastContact time.Time
	page        []byte // the page encoded last
	pageAfter   uint64 // the sequence number that the page begins after
	pageIsLast  bool

	decided chan struct{} // closed when the handoff is complete or cancelled
	once    sync.Once
}

// decide wakes runHandoff.
func (h *handoff) decide() { h.once.Do(func() { close(h.decided) }) }

// startHandoff offers a session to another node, which has claimed it by a request of a kind, and
// holds it.
func (c *Coordinator) startHandoff(kind byte, to int, t *lease, session *engine.Handover) []byte {
	h := &handoff{lease: t, to: to, session: session, lastContact: time.Now(), decided: make(chan struct{})}
	a := claimResponse{kind: kind, outcome: outcomeOffered}
	a.offer.state, a.offer.next = session.State()
	a.offer.arrival, h.sentSeq = session.Ownership().Timestamp, a.offer.state.SentSeq
	c.mu.Lock()
	full := len(c.handoffs)-len(c.inDoubt) >= maxHandoffs
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
		if c.askStatus(h.lease.ctx, h) != replyBusy {
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

// askStatus asks the other node whether it has imported the session, and drops or keeps the
// session accordingly. It returns the status, 0 without a response.
func (c *Coordinator) askStatus(ctx context.Context, h *handoff) byte {
	b, err := c.ask(ctx, h.to, statusRequest{h.lease.clientID, h.id}.encode())
	if err != nil {
		return 0
	}
	a, err := decodeReply(b)
	if err != nil {
		return 0
	}
	switch {
	case a.status == replyUnknown, a.status == replyDone && !c.complete(h, a.upTo):
		c.keep(h)
	case a.status == replyDone:
		c.removeDoubt(h)
	}
	return a.status
}

// endHandoff ends a handoff. Unless it is complete the session stays, and is in doubt if the
// other node may have imported it.
func (c *Coordinator) endHandoff(h *handoff) {
	h.decide()
	c.mu.Lock()
	c.inDoubt[h.lease.clientID] = h // before a confirmation can end the doubt; the lease is held
	c.mu.Unlock()
	if c.keepUnlessFetched(h) {
		c.o.Log.Debug("it is not known whether a session has moved", "node", h.to, "clientid", h.lease.clientID)
		c.markUnreconciled(h.to)
	} else {
		c.removeDoubt(h)
		c.notePart(h)
	}
	h.lease.release()
}

// keepUnlessFetched is keep for a session that was not fetched as a whole. It reports whether
// another one is left in doubt: that stays frozen.
func (c *Coordinator) keepUnlessFetched(h *handoff) (inDoubt bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended && h.fetched {
		h.session.AllowExpiry()
		h.page = nil // a confirmation needs none
		return true
	}
	c.keepLocked(h)
	return false
}

// keep ends a handoff, unless it has ended: the session, or what is left of it, stays here.
func (c *Coordinator) keep(h *handoff) {
	h.mu.Lock()
	kept := c.keepLocked(h)
	h.mu.Unlock()
	if c.removeDoubt(h) && kept {
		c.notePart(h)
		nodes, _ := c.o.Net.Peers()
		c.markUnreconciled(nodes...) // with which it was not compared meanwhile
	}
}

// keepLocked reports whether it ended the handoff. h.mu must be held.
func (c *Coordinator) keepLocked(h *handoff) bool {
	if h.ended {
		return false
	}
	h.ended = true
	h.session.Keep()
	c.counts.kept.Add(1)
	return true
}

// complete removes a session that was imported elsewhere with its messages up to a sequence
// number. It returns false if more messages have been queued since: these are left.
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

// errTransferEnded means that a session is not offered, or not any more.
var errTransferEnded = errors.New("the session is not offered any more")

// fetch returns a chunk of the page that follows a sequence number. The first fetch freezes
// the session.
func (h *handoff) fetch(ctx context.Context, q transferRequest) []byte {
	if h.session.AwaitAnswers(ctx) != nil {
		return chunk{}.encode() // the session stays here
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return chunk{}.encode()
	}
	h.lastContact = time.Now()
	if h.page == nil && q.offset > 0 { // what was queued since may have changed the page
		return chunk{}.encode()
	}
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
		h.page, h.pageAfter, h.pageIsLast = p.encode(), q.after, !p.more
	}
	rest := h.page[min(q.offset, uint64(len(h.page))):]
	h.fetched = h.fetched || h.pageIsLast && len(rest) <= chunkSize
	return chunk{total: uint64(len(h.page)), bytes: rest[:min(len(rest), chunkSize)]}.encode()
}
