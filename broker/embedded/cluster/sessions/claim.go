package sessions

import (
	"context"
	"errors"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// maxClaim bounds a claim in all.
const maxClaim = 30 * time.Second

// errBusy refuses a client whose claim came to no end.
var errBusy error = &engine.Refusal{Reason: packet.ReasonServerUnavailable, Text: "the session could not be brought here from another node"}

// Claim brings the session of a client id here, wherever it is.
func (c *Claims) Claim(ctx context.Context, claim engine.Claim) (settled func(), err error) {
	c.counts.claims.Add(1)
	ctx, cancel := context.WithTimeout(ctx, maxClaim)
	defer cancel()
	t, err := c.turns.begin(ctx, c.life, claim.ClientID, rank{claim.Arrival, c.o.Self})
	if err != nil {
		return nil, c.refusal(err)
	}
	defer context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })()
	adopted, err := c.gather(t, claim)
	if err == nil && t.ctx.Err() != nil {
		err = context.Cause(t.ctx)
	}
	if err != nil {
		adopted.settle()
		t.end()
		return nil, c.refusal(err)
	}
	return func() {
		c.suspect(t.passedOver...) // whatever was compared with them, this session was not
		adopted.settle()
		t.end()
	}, nil
}

// refusal is why a client does not get in.
func (c *Claims) refusal(err error) error {
	if errors.Is(err, engine.ErrLater) {
		c.counts.later.Add(1)
	}
	if _, is := errors.AsType[*engine.Refusal](err); is {
		return err
	}
	c.o.Log.Debug("a client id could not be claimed", "error", err)
	return errBusy
}

// gather ends what is elsewhere of a client id and brings its session here. It
// gives the session that was brought, if one was.
func (c *Claims) gather(t *turn, claim engine.Claim) (*adoption, error) {
	gifts, err := c.askAll(t, claim)
	if err == nil && len(gifts) > 0 {
		gifts, err = c.newest(t.ctx, claim, gifts)
	}
	if err != nil || len(gifts) == 0 {
		c.keepAll(gifts)
		return nil, err
	}
	return c.takeOver(t, gifts)
}

// offered is a gift with the node that gives it.
type offered struct {
	from int
	gift
}

// askAll claims a client id at all nodes at once, and gives the sessions that are
// offered. Nodes that do not answer are passed over.
func (c *Claims) askAll(t *turn, claim engine.Claim) (gifts []offered, err error) {
	var mu sync.Mutex
	var asked sync.WaitGroup
	request := claimRequest{Claim: claim}.encode()
	nodes, silent := c.answering()
	t.passedOver = silent
	for _, n := range nodes {
		asked.Go(func() {
			b, unanswered := c.ask(t.ctx, n, request)
			a, failed := decodeClaimAnswer(b)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case unanswered != nil:
				c.counts.passedOver.Add(1)
				t.passedOver = append(t.passedOver, n)
			case failed != nil:
				c.o.Log.Warn("an answer of another node cannot be read", "node", n, "error", failed)
			case a.outcome == outcomeLater:
				err = engine.ErrLater
			case a.outcome == outcomeForeign && err == nil:
				err = engine.ErrForeign
			case a.outcome == outcomeBusy && err == nil:
				err = errBusy
			case a.outcome == outcomeGiven:
				a.gift.translate(c.o.Ahead(n))
				gifts = append(gifts, offered{n, a.gift})
			}
		})
	}
	asked.Wait()
	if t.ctx.Err() != nil {
		err = context.Cause(t.ctx)
	}
	return gifts, err
}

// newest leaves those of the offered sessions that are the same one as that which
// a client had last. The others have been replaced by a new session while
// their nodes could not be reached, and end; also if it is the one that is here.
func (c *Claims) newest(ctx context.Context, claim engine.Claim, gifts []offered) (same []offered, err error) {
	own, err := c.o.Engine.Yield(ctx, claim)
	if err != nil && !errors.Is(err, engine.ErrNoClient) {
		return gifts, err
	}
	latest, created := uint64(0), int64(0)
	if own != nil {
		state, _ := own.State()
		latest, created = own.Arrival(), state.CreatedAt
	}
	for _, o := range gifts {
		if o.arrival > latest || latest == 0 {
			latest, created = o.arrival, o.state.CreatedAt
		}
	}
	if own != nil {
		if state, _ := own.State(); state.CreatedAt == created {
			own.Keep()
		} else {
			c.o.Discarded(c.o.Self, own.Unsent())
			own.Part(everything)
		}
	}
	for _, o := range gifts {
		if o.state.CreatedAt == created {
			same = append(same, o)
			continue
		}
		c.counts.reconciled.Add(1)
		if c.farewell(o, everything) != replyDone {
			c.suspect(o.from)
		}
	}
	return same, nil
}

// keepAll has nodes keep the sessions that they have offered. It does not wait.
func (c *Claims) keepAll(gifts []offered) {
	for _, o := range gifts {
		c.start(func() {
			c.ask(c.life, o.from, ticketRequest{ticket: o.ticket}.encode(kindKeep)) //nolint:errcheck // it finds out by itself
		})
	}
}
