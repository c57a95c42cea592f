package engine

import "signalbox/broker/mqtt/packet"

// Step 5 of a publish: acknowledge, after the commit and the receipts of other nodes, or at
// once if there is neither.

// acquireAck delays the acknowledgement of the publication until releaseAck. It is called
// only while the publication is being made.
func (p *publication) acquireAck() {
	if p.ackRefs.Load() == 0 {
		p.ackRefs.Add(1) // for the store
	}
	p.ackRefs.Add(1)
}

// releaseAck releases one reference of acquireAck, or that of the store. After the last one
// the publication is acknowledged or, if one failed, refused.
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

// complete acknowledges the message, and duplicates received meanwhile, or refuses them.
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

// reservedAck is a reserved place for an acknowledgement.
type reservedAck struct {
	conn   *Conn
	number uint64
}

// acknowledge sends an acknowledgement or refusal in its reserved place. If the outcome is
// not known the connection ends without either: after a refusal the client could use the
// packet identifier for another message, though this one may be stored.
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
