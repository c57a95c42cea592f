package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"signalbox/broker/embedded/engine"
)

// maxRounds bounds how often what has come late is fetched.
const maxRounds = 8

// adoption is a session that was brought here.
type adoption struct {
	engine *engine.Adoption
	parts  []*engine.Adoption // all there are, that one included
	claims *Claims
}

// settle lets the session live on by itself. There may be none. Soon, no messages
// are on their way here that it has already.
func (a *adoption) settle() {
	if a == nil {
		return
	}
	a.engine.Settle()
	a.claims.start(func() {
		a.claims.fence(a.claims.life, []int{a.claims.o.Self}) //nolint:errcheck // what comes after that long comes twice
		a.close()
	})
}

// close forgets what has come with the session.
func (a *adoption) close() {
	for _, part := range a.parts {
		part.Close()
	}
}

// discard leaves the session where it was.
func (a *adoption) discard() {
	for _, part := range a.parts {
		part.Discard()
	}
}

// takeOver brings offered sessions here, which are parts of one. When it returns,
// all is stored, and the other nodes have forgotten it or are going to.
func (c *Claims) takeOver(t *turn, gifts []offered) (*adoption, error) {
	var givers []int
	subscribed := false
	for _, o := range gifts {
		givers = append(givers, o.from)
		subscribed = subscribed || len(o.state.Subscriptions) > 0
	}
	fence := c.fence
	if !subscribed { // no messages are on their way
		fence = func(context.Context, []int) error { return nil }
	}
	var adopted *adoption
	err := fence(t.ctx, []int{c.o.Self}) // what has come to both nodes by now has come here
	if err == nil {
		adopted, err = c.adopt(gifts)
	}
	if err != nil {
		c.keepAll(gifts)
		return nil, err
	}
	if err := fence(t.ctx, givers); err != nil { // what went only there has not come there, but nothing was fetched yet
		adopted.discard()
		c.keepAll(gifts)
		return nil, err
	}
	parts, err := c.fetchAll(t.ctx, gifts)
	if err == nil {
		err = adopted.engine.Fill(parts...)
	}
	if err != nil {
		c.keepAll(gifts)
		c.suspect(givers...) // which have the rest
		return adopted, err
	}
	c.counts.taken.Add(1)
	for i, o := range gifts {
		c.takeLeave(t.ctx, adopted, o, parts[i])
	}
	return adopted, nil
}

// adopt puts sessions in force here.
func (c *Claims) adopt(gifts []offered) (*adoption, error) {
	next := uint64(0)
	for _, o := range gifts {
		next = max(next, o.next)
	}
	adopted := &adoption{claims: c}
	for _, o := range gifts {
		a, err := c.o.Engine.Adopt(&o.state, next)
		if err != nil {
			adopted.discard()
			return nil, err
		}
		adopted.parts = append(adopted.parts, a)
	}
	adopted.engine = adopted.parts[0]
	return adopted, nil
}

// maxFence bounds the wait for messages that are on their way, in Patience. By then
// those for a node that cannot be reached were given up.
const maxFence = 6

// fence waits until nodes have all messages that any node that answers has sent to
// them, or was about to. It fails while these are still on their way, or when the
// context ends.
func (c *Claims) fence(ctx context.Context, to []int) error {
	bounded, cancel := context.WithTimeout(ctx, maxFence*c.o.Patience)
	defer cancel()
	nodes, _ := c.answering()
	failures := make([]error, 1+len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() { failures[i] = c.flushAt(bounded, n, to) })
	}
	failures[len(nodes)] = c.flush(bounded, to)
	asked.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(failures...)
}

// flushAt is flush at another node. One that does not answer is passed over.
func (c *Claims) flushAt(ctx context.Context, node int, to []int) error {
	for {
		b, err := c.ask(ctx, node, encodeFlush(to))
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("messages from node %d are still on their way: %w", node, context.Cause(ctx))
		case err != nil:
			return nil //nolint:nilerr // it is silent from now on
		}
		if a, err := decodeReply(b); err != nil || a.what != replyBusy {
			return err
		}
	}
}

// fetchAll fetches what waits for sessions. The nodes are asked at the same time.
func (c *Claims) fetchAll(ctx context.Context, gifts []offered) ([]*engine.StoredSession, error) {
	parts, failures := make([]*engine.StoredSession, len(gifts)), make([]error, len(gifts))
	var fetching sync.WaitGroup
	for i, o := range gifts {
		fetching.Go(func() {
			parts[i] = &engine.StoredSession{}
			failures[i] = c.fetch(ctx, o, 0, parts[i])
		})
	}
	fetching.Wait()
	for i, err := range failures {
		if err != nil {
			return nil, fmt.Errorf("fetch a session from node %d: %w", gifts[i].from, err)
		}
	}
	return parts, nil
}

// fetch adds what waits for a session behind a sequence number.
func (c *Claims) fetch(ctx context.Context, o offered, after uint64, into *engine.StoredSession) error {
	for {
		p, err := c.fetchPage(ctx, o, after)
		if err != nil {
			return err
		}
		c.counts.messages.Add(int64(len(p.queue)))
		into.SentSeq = max(into.SentSeq, p.sentSeq)
		into.Incoming = append(into.Incoming, p.incoming...)
		into.Queue = append(into.Queue, p.queue...)
		if !p.more || len(p.queue) == 0 {
			return nil
		}
		after = p.queue[len(p.queue)-1].Seq
	}
}

// maxPage bounds a page: the largest message that MQTT knows, and some.
const maxPage = 512 << 20

// fetchPage fetches a page, piece by piece.
func (c *Claims) fetchPage(ctx context.Context, o offered, after uint64) (p page, err error) {
	var whole []byte
	for {
		q := ticketRequest{ticket: o.ticket, after: after, offset: uint64(len(whole))}
		b, err := c.ask(ctx, o.from, q.encode(kindFetch))
		if err != nil {
			return p, err
		}
		a, err := decodePiece(b)
		if err != nil {
			return p, err
		}
		whole = append(whole, a.bytes...)
		switch {
		case a.total == 0:
			return p, errGone
		case a.total > maxPage, len(a.bytes) == 0 && uint64(len(whole)) < a.total:
			return p, errFormat
		case uint64(len(whole)) >= a.total:
			p, err = decodePage(whole)
			p.translate(c.o.Ahead(o.from))
			return p, err
		}
	}
}

// takeLeave tells a node that its session has arrived. What has come there since
// is fetched, too.
func (c *Claims) takeLeave(ctx context.Context, adopted *adoption, o offered, part *engine.StoredSession) {
	upTo := uint64(0)
	for range maxRounds {
		if n := len(part.Queue); n > 0 {
			upTo = part.Queue[n-1].Seq
		}
		switch c.farewell(o, upTo) {
		case replyDone:
			return
		case replyMore:
		default: // it is not known whether the session has gone there
			c.suspect(o.from)
			return
		}
		part = &engine.StoredSession{}
		if c.fetch(ctx, o, upTo, part) != nil || adopted.engine.Fill(part) != nil {
			break
		}
	}
	c.keepAll([]offered{o})
	c.suspect(o.from)
}

// receipt names a session that a node has given.
type receipt struct {
	from   int
	ticket uint64
}

// farewell is that it may forget it.
type farewell struct {
	offered offered
	upTo    uint64
}

// maxPending bounds farewells that nodes have not heard of. Beyond it, they find
// out when they are reconciled.
const maxPending = 65_536

// farewell tells a node that a session has arrived with its messages up to a
// number. If the node does not answer it is told again later.
func (c *Claims) farewell(o offered, upTo uint64) (what byte) {
	key := receipt{o.from, o.ticket}
	c.mu.Lock()
	if len(c.pending) < maxPending {
		c.pending[key] = farewell{o, upTo}
	}
	c.mu.Unlock()
	b, err := c.ask(c.life, o.from, ticketRequest{ticket: o.ticket, after: upTo}.encode(kindDone))
	if err != nil {
		return 0
	}
	a, err := decodeReply(b)
	if err != nil {
		return 0
	}
	c.mu.Lock()
	delete(c.pending, key)
	c.mu.Unlock()
	return a.what
}
