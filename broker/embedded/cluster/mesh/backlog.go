package mesh

import (
	"errors"
	"time"

	"signalbox/broker/embedded/cluster/mesh/backlog"
	"signalbox/broker/embedded/engine"
)

// DefaultMaxBacklog bounds what is stored for one node that is away: about an hour of 1,000
// messages of 250 bytes a second.
const DefaultMaxBacklog = 1 << 30

const (
	pageSize = 256 << 10 // approximate size of what is read of the backlog at once
	// retryDelay is the time until more of the backlog is sent to a node that could not store
	// what it was sent.
	retryDelay = time.Second
)

// Errors that refuse a message above QoS 0 for a node that is away.
var (
	errBacklogFull = errors.New("as much is stored for another node of the cluster, which is away, as may be")
	errDiskLow     = errors.New("too little disk space is free to store messages for another node of the cluster, which is away")
)

// abandonment is what is to be done, without a lock, when a link is abandoned.
type abandonment struct {
	shared  []messageFrame // messages for shared subscriptions
	refused []receiptError
}

// receiptError is a receipt and the outcome that it is to be given.
type receiptError struct {
	receipt engine.Receipt
	err     error
}

func (a *abandonment) report() {
	for _, r := range a.refused {
		r.receipt.Committed(r.err)
	}
}

// abandon stops waiting for the peer, unless the link is up: what waits is stored, and stays in the
// queue. What is only for sessions that have ended with their node by now is lost.
func (l *link) abandon() (outcome abandonment, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.linked || l.closed != nil {
		return outcome, false
	}
	l.abandoned = true
	l.queue.filter(func(p *messageFrame) bool { return p.stored > 0 || l.storeWaiting(p, &outcome) })
	if !l.storing {
		l.loaded, l.storing = l.backlog.Last(), true
	}
	l.wakeWaiters()
	return outcome, true
}

// storeWaiting stores a queued message except for its shared subscriptions. It reports whether it
// stays queued. l.mu must be held.
func (l *link) storeWaiting(p *messageFrame, outcome *abandonment) (keep bool) {
	if len(p.Shares) > 0 {
		shared := *p
		shared.Direct = false
		if p.Direct && p.Receipt != nil {
			joint := newJointReceipt(p.Receipt)
			p.Receipt, shared.Receipt = joint, joint
		}
		p.Shares = nil
		outcome.shared = append(outcome.shared, shared)
	}
	if !p.Direct {
		return false
	}
	var err error = engine.ErrGone
	if p.Temporary {
		l.countLossLocked(p)
	} else {
		err = l.store(p)
	}
	if err != nil && p.Receipt != nil {
		outcome.refused = append(outcome.refused, receiptError{p.Receipt, err})
	}
	p.Receipt = nil
	return err == nil && !l.storing // else it is behind what is loaded later
}

// store appends a message to the backlog, within the bounds of that. Its receipt is given the outcome. l.mu
// must be held.
func (l *link) store(p *messageFrame) error {
	data := stored(p)
	switch t := l.backlog.Totals(); {
	case t.Messages > 0 && t.Bytes+int64(len(data)) > l.mesh.maxBacklog:
		l.totals.Refused++
		return errBacklogFull
	case l.mesh.diskLow():
		l.totals.Refused++
		return errDiskLow
	}
	return l.put(p, data)
}

// stored returns a message as the backlog has it.
func stored(p *messageFrame) []byte {
	s := *p
	s.number, s.Receipt = 1, nil // in place of the one in the backlog
	return appendMessage(nil, &s)
}

// put is store without bounds, for an encoded message.
func (l *link) put(p *messageFrame, data []byte) (err error) {
	receipt := p.Receipt
	if p.stored, err = l.backlog.Put(data, func(err error) { l.storedOutcome(receipt, err) }); err != nil {
		l.totals.Refused++
	}
	return err
}

// storedOutcome passes on whether a message is in the backlog.
func (l *link) storedOutcome(receipt engine.Receipt, err error) {
	l.mu.Lock()
	if err != nil {
		l.totals.Refused++
	}
	l.completeFlushes()
	linked := l.linked
	l.mu.Unlock()
	if linked {
		l.wakeSender()
	}
	if receipt != nil {
		receipt.Committed(err)
	}
}

// storeAgain appends a message of the backlog to it, whose place there it takes, because the peer could not
// store it. More is sent after a while. l.mu must be held.
func (l *link) storeAgain(p *messageFrame) {
	again := *p
	again.Receipt = nil
	if err := l.put(&again, stored(&again)); err != nil {
		l.countLossLocked(p)
	}
	l.storing = true
	l.retryAt = time.Now().Add(retryDelay)
}

// load appends messages of the backlog to the queue, if there is space. It reports whether there
// may be more. It is called by the sender, which ends before the link is down.
func (l *link) load() (more bool, err error) {
	l.mu.Lock()
	after, wait := l.loaded, !l.storing || !l.queue.roomy() || time.Now().Before(l.retryAt)
	l.mu.Unlock()
	if wait {
		return false, nil
	}
	messages, upTo, err := l.backlog.Read(l.peer.ctx, after, pageSize)
	if err != nil {
		if l.peer.ctx.Err() == nil {
			l.mesh.log.Error("messages that wait for another node cannot be read", "node", l.peer.id, "error", err)
		}
		return false, err
	}
	frames := l.decode(messages)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range frames {
		l.queue.push(frames[i])
	}
	l.loaded = upTo
	l.storing = l.loaded < l.backlog.Last()
	return upTo > after, nil
}

// decode returns messages of the backlog. One that cannot be read is left out: it is lost.
func (l *link) decode(messages []backlog.Message) (frames []messageFrame) {
	var names interner
	for _, m := range messages {
		kind, body, ok, err := (&reader{buf: m.Data, end: len(m.Data)}).next()
		if err == nil && (!ok || kind != frameMessage) {
			err = errFrame
		}
		var p messageFrame
		if err == nil {
			p, err = decodeMessage(body, &names)
		}
		if err != nil {
			l.mesh.log.Error("a message that waits for another node cannot be read", "node", l.peer.id, "error", err)
			l.countLoss(&p)
			continue
		}
		p.stored, p.late = m.Number, true
		frames = append(frames, p)
	}
	return frames
}

// removeStored deletes the messages of the backlog up to a confirmed one, except those that move to
// other nodes and what follows them. l.mu must be held.
func (l *link) removeStored(confirmed uint64) {
	l.removable = max(l.removable, confirmed)
	upTo := l.removable
	for number := range l.moving {
		upTo = min(upTo, number-1)
	}
	if upTo > 0 {
		l.backlog.Remove(upTo)
	}
}

// move returns the receipt with which a message of the backlog goes to other members of shared
// subscriptions. l.mu must be held.
func (l *link) move(p *messageFrame, shares []string) engine.Receipt {
	l.moving[p.stored]++
	again := *p
	again.Direct, again.Shares = false, shares
	return &movingReceipt{l, again}
}

// movingReceipt ends the move of a message. If it could not be stored elsewhere, it is sent again.
type movingReceipt struct {
	link *link
	p    messageFrame
}

// Committed implements [engine.Receipt].
func (r *movingReceipt) Committed(err error) {
	l := r.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(err, engine.ErrGone) && l.closed == nil {
		l.storeAgain(&r.p)
	}
	if l.moving[r.p.stored]--; l.moving[r.p.stored] == 0 {
		delete(l.moving, r.p.stored)
	}
	if l.closed == nil {
		l.removeStored(0)
		l.completeFlushes()
	}
}

// deleteBacklog deletes what is stored for a removed peer. Messages for shared subscriptions go to
// other members; all others are lost.
func (p *peer) deleteBacklog() {
	l := p.link
	if !l.backlog.Has(p.generation) {
		return
	}
	for after := uint64(0); ; {
		messages, upTo, err := l.backlog.Read(p.mesh.ctx, after, pageSize)
		if err != nil || upTo == after {
			break
		}
		after = upTo
		p.finish(l.decode(messages), engine.ErrGone)
	}
	l.backlog.End(p.generation)
}

// applyRoutes applies changes of the peer's subscriptions, and returns what is to be stored of
// them: what outlives the connections of its clients.
func (p *peer) applyRoutes(routes []route) (changed []backlog.Route) {
	for _, r := range routes {
		if r.removed {
			p.handle.Withdraw(r.filter)
		} else if !p.handle.Announce(r.filter, r.Interest) {
			continue
		}
		changed = append(changed, backlog.Route{Filter: r.filter, Interest: r.encode(), Removed: r.removed || r.Temporary})
	}
	return changed
}

// restoreRoutes announces the subscriptions that the peer had before this node started.
func (p *peer) restoreRoutes() {
	routes, complete, err := p.link.backlog.Routes(p.ctx)
	if err != nil {
		p.mesh.log.Error("what clients of another node have subscribed to cannot be read: messages for its sessions are lost until it is back", "node", p.id, "error", err)
		return
	}
	for _, r := range routes {
		p.handle.Announce(r.Filter, decodeInterest(r.Interest))
	}
	p.routesKnown.Store(complete)
}
