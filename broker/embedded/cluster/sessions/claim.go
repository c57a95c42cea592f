package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// maxClaim bounds the duration of a claim.
const maxClaim = 30 * time.Second

// errBusy refuses a client whose claim could not be completed.
var errBusy error = &engine.Refusal{Reason: packet.ReasonServerUnavailable, Text: "the session could not be moved here from another node"}

// Claim moves the session of a client id to this node, wherever it is. It implements
// engine.Claims.
func (c *Coordinator) Claim(ctx context.Context, claim engine.Claim) (settled func(), err error) {
	c.counts.claims.Add(1)
	ctx, cancel := context.WithTimeout(ctx, maxClaim)
	defer cancel()
	t, err := c.leases.acquire(ctx, c.ctx, claim.ClientID, leaseOrder{claim.Timestamp, c.o.Self})
	if err != nil {
		return nil, c.refusal(err)
	}
	defer context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })()
	imported, err := c.collect(t, claim)
	if err == nil && t.ctx.Err() != nil {
		err = context.Cause(t.ctx)
	}
	if err != nil {
		c.markUnreconciled(t.skipped...) // of what was imported there may be another session
		imported.finish()
		t.release()
		return nil, c.refusal(err)
	}
	return func() {
		c.markUnreconciled(t.skipped...) // this session was not part of any comparison with them
		if len(t.skipped) > 0 {
			c.o.Engine.RememberDirect(claim.ClientID)
		}
		imported.finish()
		t.release()
	}, nil
}

// refusal returns the error that the client is refused with.
func (c *Coordinator) refusal(err error) error {
	if errors.Is(err, engine.ErrLater) {
		c.counts.superseded.Add(1)
	}
	if _, is := errors.AsType[*engine.Refusal](err); is {
		return err
	}
	c.o.Log.Debug("cannot claim a client id", "error", err)
	return errBusy
}

// collect claims the client id at all nodes and moves its session here. It returns the
// imported session, or nil if there is none elsewhere.
func (c *Coordinator) collect(t *lease, claim engine.Claim) (*importedSession, error) {
	offers, err := c.claimAll(t, claim)
	if err == nil {
		err = c.resolveForClient(t, claim)
	}
	var carried []engine.QueueRecord
	if err == nil && len(offers) > 0 {
		offers, carried, err = c.selectCurrent(t, claim, offers)
	}
	if err != nil || len(offers) == 0 {
		c.cancelOffers(offers)
		return nil, err
	}
	t.carries = len(carried) > 0
	created := offers[0].state.CreatedAt
	imported, err := c.takeOver(t, offers)
	if err != nil {
		c.o.Discarded(c.o.Self, len(inherited(carried, created, nil)))
		return imported, err
	}
	carried = inherited(carried, created, c.o.Engine.ReceivedDirectly(claim.ClientID))
	if err = c.o.Engine.Inherit(claim.ClientID, carried); err != nil {
		c.o.Discarded(c.o.Self, len(carried))
	}
	return imported, err
}

// peerOffer is an offer and the node that made it.
type peerOffer struct {
	from int
	offer
}

// claimAll claims a client id at all nodes at once and returns the sessions offered. Nodes
// that do not respond are skipped.
func (c *Coordinator) claimAll(t *lease, claim engine.Claim) (offers []peerOffer, err error) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	request := claimRequest{Claim: claim}.encode()
	nodes, unreachable := c.reachablePeers()
	t.skipped = unreachable
	for _, n := range nodes {
		asked.Go(func() {
			b, requestErr := c.ask(t.ctx, n, request)
			a, decodeErr := decodeClaimResponse(b)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case requestErr != nil:
				c.counts.skipped.Add(1)
				t.skipped = append(t.skipped, n)
			case decodeErr != nil:
				c.o.Log.Warn("a response of another node cannot be decoded", "node", n, "error", decodeErr)
			case a.outcome == outcomeSuperseded:
				err = engine.ErrLater
			case a.outcome == outcomeOtherUser && err == nil:
				err = engine.ErrForeign
			case a.outcome == outcomeBusy && err == nil:
				err = errBusy
			case a.outcome == outcomeOffered:
				a.offer.adjustTimes(c.o.ClockOffset(n))
				offers = append(offers, peerOffer{n, a.offer})
				t.addOffer(offers[len(offers)-1])
			}
		})
	}
	asked.Wait()
	if t.ctx.Err() != nil {
		err = context.Cause(t.ctx)
	}
	return offers, err
}

// selectCurrent returns the offers that belong to the session which the client had last, the local
// one included. All others were replaced while their nodes could not be reached. Those at other nodes
// stay until they are compared with it; that of this node ends, and what the client inherits of it is
// carried over. All end, and none is left, if the client has alternated between them.
func (c *Coordinator) selectCurrent(t *lease, claim engine.Claim, offers []peerOffer) (same []peerOffer, carried []engine.QueueRecord, err error) {
	local, err := c.o.Engine.Yield(t.ctx, claim)
	if err != nil && !errors.Is(err, engine.ErrNoClient) {
		return offers, nil, err
	}
	all := make([]engine.Ownership, 0, 1+len(offers))
	for _, o := range offers {
		all = append(all, o.ownership())
	}
	if local != nil {
		all = append(all, local.Ownership())
	}
	latest, ok := current(all)
	if local != nil {
		if carried, err = c.settle(t.ctx, local, latest, ok); err != nil {
			return offers, nil, err
		}
	}
	for _, o := range offers {
		switch {
		case ok && o.state.CreatedAt == latest.CreatedAt:
			same = append(same, o)
		case ok:
			c.cancelOffers([]peerOffer{o})
			t.skipped = append(t.skipped, o.from)
		default:
			c.counts.reconciled.Add(1)
			if c.confirm(o, allMessages) != replyDone {
				c.markUnreconciled(o.from)
			}
		}
	}
	return same, carried, nil
}

// settle keeps the session of this node if it is the one that the client had last, if there is such
// a session, and ends it otherwise. It returns what the client inherits of it.
func (c *Coordinator) settle(ctx context.Context, local *engine.Handover, latest engine.Ownership, ok bool) (carried []engine.QueueRecord, err error) {
	switch here := local.Ownership(); {
	case ok && here.CreatedAt == latest.CreatedAt:
		local.Keep()
	case ok && inherits(latest, here):
		if carried, err = c.carry(ctx, local); err != nil {
			local.Keep()
		}
	default:
		c.discard(local)
	}
	return carried, err
}

// carry ends a session of this node and returns what waits in it, of which the client's current one, which is about to
// be moved here, inherits some. It is in memory only until then.
func (c *Coordinator) carry(ctx context.Context, older *engine.Handover) ([]engine.QueueRecord, error) {
	if err := c.barrier(ctx, []int{c.o.Self}); err != nil { // what waits for it must be in it
		return nil, err
	}
	if err := older.AwaitAnswers(ctx); err != nil {
		return nil, err
	}
	older.Freeze(ctx) // so that nothing is queued between the two
	queue, _, err := older.Queue(0, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("read what waits in an older session of the client: %w", err)
	}
	older.End(allMessages)
	c.counts.reconciled.Add(1)
	return queue, nil
}

// current returns the session that a client had last. It returns false if the client has alternated
// between that session and another one.
func current(all []engine.Ownership) (last engine.Ownership, ok bool) {
	last = slices.MaxFunc(all, func(a, b engine.Ownership) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	for _, o := range all {
		if alternated(o, last) {
			return last, false
		}
	}
	return last, true
}

// alternated reports whether a client was connected with another session after the current one
// had been created. It was then told of both that they are present, and the packet identifiers
// that it keeps belong to either: if it were left with one, it would take a new message for one
// that it has [MQTT-4.3.3]. So it must be told that it has none.
func alternated(other, current engine.Ownership) bool {
	return other.CreatedAt != current.CreatedAt && other.Username == current.Username && other.Anonymous == current.Anonymous &&
		int64(other.Timestamp/uint64(time.Millisecond/time.Microsecond)) > current.CreatedAt
}

// discard ends a session of this node and reports what it had queued.
func (c *Coordinator) discard(h *engine.Handover) {
	c.o.Discarded(c.o.Self, h.Unsent())
	h.End(allMessages)
}

// cancelOffers requests nodes to keep the sessions they offered. It does not wait.
func (c *Coordinator) cancelOffers(offers []peerOffer) {
	for _, o := range offers {
		c.startTask(func() {
			c.ask(c.ctx, o.from, transferRequest{id: o.transferID}.encode(kindCancel)) //nolint:errcheck // the node asks for the status itself
		})
	}
}
