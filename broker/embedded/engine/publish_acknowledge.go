package engine

import "signalbox/broker/mqtt/packet"

// Step 5 of a publish: acknowledge. It follows the commit and the receipts of other
// nodes, or comes at once where there is neither.

// acquireAck keeps the publication from being acknowledged, though not from being
// stored. It is called by its maker.
func (p *publication) acquireAck() {
	if p.ackRefs.Load() == 0 {
		p.ackRefs.Add(1) // for itself
	}
	p.ackRefs.Add(1)
}

// releaseAck ends what wait began, and the publication's own wait for the store.
// After the last of them it is acknowledged or, where one failed, refused.
func (p *publication) releaseAck(err error) {
	if p.ackRefs.Load() == 0 {
		p.complete(err)
		return
	}
	p.fail(err)
	if p.ackRefs.Add(-1) > 0 {
		return
	}
	if failed := p.failed.Load(); failed != nil {
		err = *failed
	}
	p.complete(err)
}

// complete acknowledges the message to its publisher, or refuses it, and likewise
// what repeated it meanwhile.
func (p *publication) complete(err error) {
	if p.ackReserved {
		p.acknowledge(reservedAck{p.conn, p.number}, err)
	}
	if p.incoming != 0 {
		p.conn.session.answered(p, err == nil)
		for _, r := range p.duplicates {
			p.acknowledge(r, err)
		}
	}
	if p.withdraw != nil && err != nil {
		p.withdraw()
	}
	if p.done != nil {
		p.done <- err
	}
	if p.receipt != nil {
		p.receipt.Committed(err)
	}
	switch {
	case p.parent == nil:
	case p.ackOnly:
		p.parent.releaseAck(err)
	default:
		p.parent.releaseStore(err)
	}
	p.recycle()
}

// reservedAck is a place that is kept for the answer to a packet that came again.
type reservedAck struct {
	conn   *Conn
	number uint64
}

// acknowledge sends an answer for which a place is kept. A client that were told that a
// message is refused which is stored after all could use its packet identifier
// for another one; so where that is not known it is told nothing.
func (p *publication) acknowledge(r reservedAck, err error) {
	refused := packet.ReasonSuccess
	if err != nil {
		refused = packet.ReasonQuotaExceeded
	}
	switch {
	case r.conn.withholdsAnswer(err):
		r.conn.endUncertain()
		return
	case err != nil && r.conn.version < 5:
		r.conn.endUnacknowledged()
		return
	}
	r.conn.sendAck(p.kind, r.number, refused)
	p.engine.flushDeferred(r.conn)
}
