package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// maxRounds bounds how often messages that were queued late are fetched.
const maxRounds = 8

// importedSession is a session that was moved here.
type importedSession struct {
	first       *engine.Adoption
	parts       []*engine.Adoption // all parts, first included
	coordinator *Coordinator
}

// finish completes an import; a may be nil. Duplicates of imported messages are detected until
// a last barrier has passed in the background, or while those of nodes that do not respond may be under way.
func (a *importedSession) finish() {
	if a == nil {
		return
	}
	a.first.Activate()
	a.coordinator.afterDuplicates(a.close)
}

// afterDuplicates calls do when messages that were sent to two nodes have arrived at this one, or are not waited for.
func (c *Coordinator) afterDuplicates(do func()) {
	started := c.startTask(func() {
		defer do()
		c.barrier(c.ctx, []int{c.o.Self}) //nolint:errcheck // a message that is under way longer than that is delivered twice
		if _, unreachable := c.reachablePeers(); len(unreachable) > 0 {
			select {
			case <-time.After(maxBarrier * c.o.RequestTimeout):
			case <-c.ctx.Done():
			}
		}
	})
	if !started {
		do()
	}
}

// close stops the detection of duplicates.
func (a *importedSession) close() {
	for _, part := range a.parts {
		part.Close()
	}
}

// discard undoes the import.
func (a *importedSession) discard() {
	for _, part := range a.parts {
		part.Discard()
	}
}

// takeOver moves offered sessions here, which are parts of one. When it returns, everything is
// stored, and the other nodes have dropped the session or will.
func (c *Coordinator) takeOver(t *lease, offers []peerOffer) (*importedSession, error) {
	var sources []int
	subscribed := false
	for _, o := range offers {
		sources = append(sources, o.from)
		subscribed = subscribed || len(o.state.Subscriptions) > 0
	}
	barrier := c.barrier
	if !subscribed { // no messages are under way to it
		barrier = c.awaitAnswers
	}
	before, _ := c.o.Engine.Ownership(t.clientID) //nolint:errcheck // without a part of it here, any other is later
	var imported *importedSession
	err := barrier(t.ctx, []int{c.o.Self}) // what was sent to both nodes by now has arrived here
	if err == nil {
		imported, err = c.importOffers(offers)
	}
	if err != nil {
		c.cancelOffers(offers)
		return nil, err
	}
	if err := barrier(t.ctx, sources); err != nil { // messages sent only to the sources may still be under way, but nothing was fetched yet
		imported.discard()
		c.cancelOffers(offers)
		return nil, err
	}
	parts, err := c.fetchAll(t.ctx, offers)
	if err == nil {
		imported.keepLatestIncoming(before, offers, parts)
		c.bringReceived(t, imported, offers)
		err = imported.first.Fill(parts...)
	}
	if err != nil {
		c.cancelOffers(offers)
		c.markUnreconciled(sources...) // which have the rest
		return imported, err
	}
	c.counts.received.Add(1)
	for i, o := range offers {
		c.finishTransfer(t.ctx, imported, o, parts[i])
	}
	return imported, nil
}

// keepLatestIncoming leaves only the part of a session at which its client was connected last with
// packet identifiers of QoS 2 messages from the client, here or at another node. It may have
// released those of the others since, and use them for new messages [MQTT-4.3.3-12].
func (a *importedSession) keepLatestIncoming(here engine.Ownership, offers []peerOffer, parts []*engine.StoredSession) {
	latest := here.Timestamp
	for _, o := range offers {
		latest = max(latest, o.arrival)
	}
	for i, o := range offers {
		if o.arrival < latest {
			parts[i].Incoming = nil
		}
	}
	if here.Timestamp < latest {
		a.first.ForgetIncoming()
	}
}

// importOffers creates the offered sessions here.
func (c *Coordinator) importOffers(offers []peerOffer) (*importedSession, error) {
	next := uint64(0)
	for _, o := range offers {
		next = max(next, o.next)
	}
	imported := &importedSession{coordinator: c}
	for _, o := range offers {
		a, err := c.o.Engine.Adopt(&o.state, next, o.arrival)
		if err != nil {
			imported.discard()
			return nil, err
		}
		imported.parts = append(imported.parts, a)
	}
	imported.first = imported.parts[0]
	return imported, nil
}

// maxBarrier bounds barrier, in multiples of RequestTimeout. Messages for an unreachable node
// were given up by then.
const maxBarrier = 6

// barrier waits until nodes have received all messages that the reachable nodes have sent to
// them, or were about to send. It fails if some are still under way at the timeout, or when
// ctx ends.
func (c *Coordinator) barrier(ctx context.Context, to []int) error {
	bounded, cancel := context.WithTimeout(ctx, maxBarrier*c.o.RequestTimeout)
	defer cancel()
	nodes, _ := c.reachablePeers()
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

// awaitAnswers waits until nodes have answered the messages of clients whose sessions they have offered.
func (c *Coordinator) awaitAnswers(ctx context.Context, nodes []int) error {
	bounded, cancel := context.WithTimeout(ctx, maxBarrier*c.o.RequestTimeout)
	defer cancel()
	failures := make([]error, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		if n != c.o.Self {
			asked.Go(func() { failures[i] = c.flushAt(bounded, n, nil) })
		}
	}
	asked.Wait()
	return errors.Join(failures...)
}

// flushAt requests a flush at another node until that is complete. An unreachable node is
// skipped.
func (c *Coordinator) flushAt(ctx context.Context, node int, to []int) error {
	for delay := minRetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		b, err := c.ask(ctx, node, encodeFlush(to))
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("messages from node %d are still under way: %w", node, context.Cause(ctx))
		case err != nil:
			return nil //nolint:nilerr // it is unreachable from now on
		}
		if a, err := decodeReply(b); err != nil || a.status != replyBusy {
			return err
		}
		select {
		case <-time.After(delay): // a node that is closing replies at once
		case <-ctx.Done():
		}
	}
}

// fetchAll fetches the queues of offered sessions from all nodes at the same time.
func (c *Coordinator) fetchAll(ctx context.Context, offers []peerOffer) ([]*engine.StoredSession, error) {
	parts, failures := make([]*engine.StoredSession, len(offers)), make([]error, len(offers))
	var fetching sync.WaitGroup
	for i, o := range offers {
		fetching.Go(func() {
			parts[i] = &engine.StoredSession{}
			failures[i] = c.fetch(ctx, o, 0, parts[i])
		})
	}
	fetching.Wait()
	for i, err := range failures {
		if err != nil {
			return nil, fmt.Errorf("fetch a session from node %d: %w", offers[i].from, err)
		}
	}
	return parts, nil
}

// fetch appends the queued messages after a sequence number.
func (c *Coordinator) fetch(ctx context.Context, o peerOffer, after uint64, into *engine.StoredSession) error {
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

// maxPage bounds a page: the largest MQTT packet, and some.
const maxPage = 512 << 20

// fetchPage fetches a page in chunks.
func (c *Coordinator) fetchPage(ctx context.Context, o peerOffer, after uint64) (p page, err error) {
	var encoded []byte
	for {
		q := transferRequest{id: o.transferID, after: after, offset: uint64(len(encoded))}
		b, err := c.ask(ctx, o.from, q.encode(kindFetch))
		if err != nil {
			return p, err
		}
		a, err := decodeChunk(b)
		if err != nil {
			return p, err
		}
		encoded = append(encoded, a.bytes...)
		switch {
		case a.total == 0:
			return p, errTransferEnded
		case a.total > maxPage, len(a.bytes) == 0 && uint64(len(encoded)) < a.total:
			return p, errFormat
		case uint64(len(encoded)) >= a.total:
			p, err = decodePage(encoded)
			p.adjustTimes(c.o.ClockOffset(o.from))
			return p, err
		}
	}
}

// finishTransfer confirms a transfer, and fetches what was queued at the other node meanwhile.
func (c *Coordinator) finishTransfer(ctx context.Context, imported *importedSession, o peerOffer, part *engine.StoredSession) {
	upTo := uint64(0)
	for range maxRounds {
		if n := len(part.Queue); n > 0 {
			upTo = part.Queue[n-1].Seq
		}
		switch c.confirm(o, upTo) {
		case replyDone:
			return
		case replyMore:
		default: // the node may or may not have dropped the session
			c.markUnreconciled(o.from)
			return
		}
		part = &engine.StoredSession{}
		if c.fetch(ctx, o, upTo, part) != nil || imported.first.Fill(part) != nil {
			break
		}
	}
	c.cancelOffers([]peerOffer{o})
	c.markUnreconciled(o.from)
}

// transferKey names a transfer of another node.
type transferKey struct {
	from int
	id   uint64
}

// confirmation states that the messages of an offer were imported up to a sequence number.
type confirmation struct {
	offer peerOffer
	upTo  uint64
}

// maxConfirmations bounds the unacknowledged confirmations. Nodes of further ones find out
// when they are reconciled.
const maxConfirmations = 65_536

// confirm confirms to a node that its session was imported with the messages up to a
// sequence number, and returns the status of the reply. If the node does not respond it
// returns 0, and reconciling repeats the confirmation.
func (c *Coordinator) confirm(o peerOffer, upTo uint64) (status byte) {
	key := transferKey{o.from, o.transferID}
	c.mu.Lock()
	if len(c.unconfirmed) < maxConfirmations {
		c.unconfirmed[key] = confirmation{o, upTo}
	}
	c.mu.Unlock()
	b, err := c.ask(c.ctx, o.from, transferRequest{id: o.transferID, after: upTo}.encode(kindConfirm))
	if err != nil {
		return 0
	}
	a, err := decodeReply(b)
	if err != nil {
		return 0
	}
	c.mu.Lock()
	delete(c.unconfirmed, key)
	c.mu.Unlock()
	return a.status
}
