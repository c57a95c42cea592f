package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// Bounds of what is given.
const (
	maxGivings = 4096    // sessions that are given at a time; claims beyond that fail
	maxDraws   = 16      // sessions that are taken over for another node at a time; it waits
	pageSize   = 1 << 20 // of a page of a queue, about, in bytes
	pieceSize  = 8 << 20 // of what one answer has of a page
)

// everything is a sequence number that no message has: up to here, a session is
// given up with all it has.
const everything = maxSeq

// giving is a session that another node takes over.
type giving struct {
	turn   *turn
	ticket uint64
	to     int

	mu       sync.Mutex // guards what follows; held while the engine is asked for the session
	handover *engine.Handover
	sentSeq  uint64
	incoming []uint16
	frozen   bool
	parted   bool // the session has gone
	heard    time.Time
	page     []byte // as encoded last
	pageFrom uint64 // the number that it begins behind

	leave chan struct{} // closed when it is decided what becomes of the session
	once  sync.Once
}

// decide ends the giving.
func (g *giving) decide() { g.once.Do(func() { close(g.leave) }) }

// Serve answers a request of another node's.
func (c *Claims) Serve(ctx context.Context, from int, request []byte) ([]byte, error) {
	c.heard(from)
	r, kind := newReader(request)
	switch kind {
	case kindClaim:
		q, err := decodeClaim(r)
		if err != nil {
			return nil, err
		}
		if h, err := c.o.Engine.Holding(q.ClientID); q.anyUser && err == nil {
			q.Username, q.Anonymous = h.Username, h.Anonymous
		}
		return c.serveClaim(ctx, from, q.Claim), nil
	case kindFetch, kindDone, kindKeep:
		q, err := decodeTicket(r)
		if err != nil {
			return nil, err
		}
		return c.serveTicket(ctx, from, kind, q)
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
		name, err := decodeName(r)
		if err != nil {
			return nil, err
		}
		return c.serveName(ctx, from, kind, name), nil
	}
	return nil, errFormat
}

// serveFlush answers when nodes have all messages from here. It does not wait for
// longer than that is asked for.
func (c *Claims) serveFlush(ctx context.Context, to []int) []byte {
	ctx, cancel := context.WithTimeout(ctx, c.o.Patience/2)
	defer cancel()
	if err := c.flush(ctx, to); err != nil {
		return reply{what: replyBusy}.encode(kindFlush)
	}
	return reply{what: replyDone}.encode(kindFlush)
}

// serveName answers what is asked by a client id.
func (c *Claims) serveName(ctx context.Context, from int, kind byte, name string) []byte {
	if kind == kindList {
		return encodeHoldings(c.o.Engine.Holdings(name, listSize))
	}
	select {
	case c.draws <- struct{}{}:
	case <-ctx.Done():
		return reply{what: replyBusy}.encode(kind)
	}
	drawn := c.start(func() {
		defer func() { <-c.draws }()
		if err := c.draw(from, name); err != nil {
			c.o.Log.Debug("a session is at two nodes", "node", from, "error", err)
			c.suspect(from)
		}
	})
	if !drawn {
		<-c.draws
	}
	return reply{what: replyDone}.encode(kind)
}

// serveClaim ends the connection of a client id, and offers its session.
func (c *Claims) serveClaim(ctx context.Context, from int, claim engine.Claim) []byte {
	c.o.Engine.Witness(claim.Arrival)
	t, err := c.turns.begin(ctx, c.life, claim.ClientID, rank{claim.Arrival, from})
	if err != nil {
		return c.answerTo(err)
	}
	if from < c.o.Self { // of two CONNECTs at one time, that at the greater node is the later
		claim.Arrival--
	}
	bounded, cancel := context.WithCancel(t.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	h, err := c.o.Engine.Yield(bounded, claim)
	if err != nil {
		t.end()
		return c.answerTo(err)
	}
	return c.give(from, t, h)
}

// answerTo tells what became of a claim that got nothing.
func (c *Claims) answerTo(err error) []byte {
	a := claimAnswer{outcome: outcomeNone}
	switch {
	case errors.Is(err, engine.ErrNoClient):
	case errors.Is(err, engine.ErrLater):
		a.outcome = outcomeLater
	case errors.Is(err, engine.ErrForeign):
		a.outcome = outcomeForeign
	default:
		c.o.Log.Debug("a session could not be given to another node", "error", err)
		a.outcome = outcomeBusy
	}
	return a.encode()
}

// give holds a session for another node.
func (c *Claims) give(to int, t *turn, h *engine.Handover) []byte {
	g := &giving{turn: t, to: to, handover: h, heard: time.Now(), leave: make(chan struct{})}
	a := claimAnswer{outcome: outcomeGiven}
	a.gift.state, a.gift.next = h.State()
	a.gift.arrival, g.sentSeq = h.Arrival(), a.gift.state.SentSeq
	c.mu.Lock()
	full := len(c.givings) >= maxGivings
	if !full {
		c.nextGift++
		g.ticket = c.nextGift
		c.givings[g.ticket] = g
	}
	c.mu.Unlock()
	a.gift.ticket = g.ticket
	if full || !c.start(func() { c.hold(g) }) {
		c.release(g)
		return c.answerTo(fmt.Errorf("too many are on their way, or the node is closing: %d", maxGivings))
	}
	return a.encode()
}

// hold waits until it is decided what becomes of a session that is given. If the
// other node is not heard of, it is asked.
func (c *Claims) hold(g *giving) {
	defer c.release(g)
	timer := time.NewTimer(c.o.Hold)
	defer timer.Stop()
	for {
		select {
		case <-g.leave:
			return
		case <-g.turn.ctx.Done():
			return
		case <-timer.C:
		}
		if left := g.patience(c.o.Hold); left > 0 {
			timer.Reset(left)
			continue
		}
		if !c.inquire(g) {
			return
		}
		timer.Reset(c.o.Hold)
	}
}

// patience is how much longer the other node is waited for.
func (g *giving) patience(d time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return d - time.Since(g.heard)
}

// inquire asks the other node what became of a session. It tells whether to go on
// waiting.
func (c *Claims) inquire(g *giving) bool {
	b, err := c.ask(g.turn.ctx, g.to, statusRequest{g.turn.clientID, g.ticket}.encode())
	if err != nil {
		return false
	}
	a, err := decodeReply(b)
	if err == nil && a.what == replyDone {
		c.part(g, a.upTo)
	}
	return err == nil && a.what == replyBusy
}

// release ends a giving. The session stays, unless it has gone.
func (c *Claims) release(g *giving) {
	g.decide()
	g.mu.Lock()
	if !g.parted {
		c.counts.kept.Add(1)
		g.handover.Keep()
	}
	g.parted = true
	g.mu.Unlock()
	c.mu.Lock()
	delete(c.givings, g.ticket)
	c.mu.Unlock()
	g.turn.end()
}

// part gives a session up that has arrived elsewhere with its messages up to a
// number. It answers false if more has come since.
func (c *Claims) part(g *giving, upTo uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parted {
		return true
	}
	waited := 0
	if upTo == everything {
		waited = g.handover.Unsent()
	}
	if !g.handover.Part(upTo) {
		return false
	}
	c.o.Discarded(g.to, waited)
	g.parted = true
	c.counts.given.Add(1)
	return true
}

// serveTicket answers about a session that is being given.
func (c *Claims) serveTicket(ctx context.Context, from int, kind byte, q ticketRequest) ([]byte, error) {
	c.mu.Lock()
	g := c.givings[q.ticket]
	c.mu.Unlock()
	if known := g != nil && g.to == from; !known && kind == kindFetch {
		return piece{}.encode(), nil
	} else if !known {
		return reply{what: replyUnknown}.encode(kind), nil
	}
	switch kind {
	case kindFetch:
		ctx, cancel := context.WithTimeout(ctx, c.o.Patience/2)
		defer cancel()
		return g.fetch(ctx, q), nil
	case kindDone:
		if !c.part(g, q.after) {
			return reply{what: replyMore}.encode(kind), nil
		}
	}
	g.decide()
	select {
	case <-g.turn.done: // so that whoever hears of it finds the client id free
	case <-ctx.Done():
	}
	return reply{what: replyDone}.encode(kind), nil
}

// errGone tells that a session is not being given (any more).
var errGone = errors.New("the session is not on its way any more")

// fetch gives a piece of what waits for the session.
func (g *giving) fetch(ctx context.Context, q ticketRequest) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.parted {
		return piece{}.encode()
	}
	g.heard = time.Now()
	if g.page == nil || g.pageFrom != q.after || q.offset == 0 {
		if !g.frozen {
			g.incoming, g.frozen = g.handover.Freeze(ctx), true
		}
		p := page{sentSeq: g.sentSeq}
		if q.after == 0 {
			p.incoming = g.incoming
		}
		var err error
		if p.queue, p.more, err = g.handover.Queue(q.after, pageSize); err != nil {
			return piece{}.encode() // the session stays here
		}
		g.page, g.pageFrom = p.encode(), q.after
	}
	rest := g.page[min(q.offset, uint64(len(g.page))):]
	return piece{total: uint64(len(g.page)), bytes: rest[:min(len(rest), pieceSize)]}.encode()
}

// status tells whether a session that another node has given has arrived here.
func (c *Claims) status(from int, q statusRequest) reply {
	c.mu.Lock()
	f, arrived := c.pending[receipt{from, q.ticket}]
	c.mu.Unlock()
	switch {
	case arrived:
		return reply{what: replyDone, upTo: f.upTo}
	case c.turns.busy(q.clientID):
		return reply{what: replyBusy}
	}
	return reply{what: replyUnknown}
}

// flush waits until other nodes have all messages that were sent to them.
func (c *Claims) flush(ctx context.Context, to []int) error {
	if err := c.o.Engine.Pass(ctx); err != nil {
		return fmt.Errorf("wait until messages are on their way: %w", err)
	}
	for _, n := range to {
		if n == c.o.Self {
			continue
		}
		if err := c.o.Flush(ctx, n); err != nil {
			return fmt.Errorf("wait until node %d has all messages: %w", n, err)
		}
	}
	return nil
}
