package mesh

import (
	"net"
	"slices"
	"time"

	"signalbox/broker/embedded/engine"
)

// send writes routes, messages and pings until the link breaks.
func (l *link) send(conn net.Conn, broken <-chan struct{}) error {
	out := &sender{link: l, conn: conn}
	if err := out.writeRoutes(l.mesh.table.addRecipient(l.recipient)); err != nil {
		return err
	}
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		if err := out.writePending(); err != nil {
			return err
		}
		select {
		case <-l.wake:
		case <-ping.C:
			out.buf = appendPing(out.buf)
		case <-broken:
			return net.ErrClosed
		}
	}
}

// sender batches what is written at once.
type sender struct {
	link  *link
	conn  net.Conn
	buf   []byte
	batch []messageFrame
}

// writePending writes everything that waits.
func (s *sender) writePending() error {
	for {
		if r := s.link.mesh.table.nextUpdate(s.link.recipient); r != nil {
			if err := s.writeRoutes(r); err != nil {
				return err
			}
		}
		more, err := s.link.load()
		if err != nil {
			return err
		}
		s.encodeBatch()
		if len(s.buf) == 0 && more {
			continue
		}
		if len(s.buf) == 0 {
			return nil
		}
		if err := s.write(s.buf); err != nil {
			return err
		}
		s.buf = s.buf[:0]
		if cap(s.buf) > 4*batchBytes {
			s.buf = nil // it has grown for a large message
		}
	}
}

// writeRoutes encodes routes, and writes them if there are many.
func (s *sender) writeRoutes(r *routes) (err error) {
	s.buf, err = r.appendFrames(s.buf, s.write)
	return err
}

func (s *sender) write(p []byte) error {
	n, err := s.conn.Write(p)
	l := s.link
	l.mu.Lock()
	l.totals.SentBytes += int64(n)
	l.mu.Unlock()
	return err
}

// encodeBatch encodes the next messages.
func (s *sender) encodeBatch() {
	l := s.link
	l.mu.Lock()
	var repeated int
	s.batch, repeated = l.queue.nextBatch(s.batch[:0], batchBytes)
	l.totals.Sent += int64(len(s.batch))
	l.totals.Repeated += int64(repeated)
	l.wakeWaiters()
	l.mu.Unlock()
	for i := range s.batch {
		s.buf = appendMessage(s.buf, &s.batch[i])
	}
	clear(s.batch)
}

// readAcks handles the acknowledgements of the peer until the link breaks.
func (l *link) readAcks(conn net.Conn, in *reader) error {
	var receipts []engine.Receipt
	for {
		kind, body, ok, err := in.next()
		if err != nil {
			return err
		}
		if !ok {
			conn.SetReadDeadline(time.Now().Add(l.mesh.idleTimeout)) //nolint:errcheck // reading fails as well
			if err := in.fill(); err != nil {
				return err
			}
			continue
		}
		if kind == framePing {
			continue
		}
		n, err := decodeAck(body)
		if err != nil {
			return err
		}
		switch kind {
		case frameRoutesAck:
			l.mesh.table.ack(l.recipient, n.number)
		case frameStored:
			receipts = l.confirm(n.number, receipts[:0])
		case frameRefused:
			l.refuse(n.number)
		case frameNoMember:
			l.reassign(n)
		default:
			return errFrame
		}
	}
}

// confirm reports that messages up to a number are stored.
func (l *link) confirm(number uint64, receipts []engine.Receipt) []engine.Receipt {
	l.mu.Lock()
	receipts, stored := l.queue.confirm(number, receipts)
	l.removeStored(stored)
	l.wakeWaiters()
	storing := l.storing
	l.mu.Unlock()
	if storing {
		l.wakeSender()
	}
	for i, r := range receipts {
		receipts[i] = nil
		r.Committed(nil)
	}
	return receipts
}

// refuse reports that a message could not be stored.
func (l *link) refuse(number uint64) {
	l.mu.Lock()
	var receipt engine.Receipt
	if p := l.queue.find(number); p != nil {
		receipt, p.Receipt = p.Receipt, nil
		l.totals.Refused++
		if p.stored > 0 {
			l.storeAgain(p)
		}
	}
	l.mu.Unlock()
	if receipt != nil {
		receipt.Committed(errRefused)
	}
}

// reassign sends a message to other members of shared subscriptions, once: a new connection
// repeats what was acknowledged before.
func (l *link) reassign(n ackFrame) {
	l.mu.Lock()
	p := l.queue.find(n.number)
	if p == nil {
		l.mu.Unlock()
		return
	}
	names, left := partition(p.Shares, n.names)
	if len(names) == 0 {
		l.mu.Unlock()
		return
	}
	p.Shares = left
	m, receipt := p.message, p.Receipt
	switch {
	case p.stored > 0:
		receipt = l.move(p, names)
	case receipt != nil:
		joint := newJointReceipt(receipt)
		p.Receipt, receipt = joint, joint
	}
	l.mu.Unlock()
	l.peer.handle.Reassign(m, names, receipt)
}

// partition splits names into those contained in among and the others, in new slices.
func partition(names, among []string) (in, out []string) {
	for _, name := range names {
		if slices.Contains(among, name) {
			in = append(in, name)
		} else {
			out = append(out, name)
		}
	}
	return in, out
}
