package mesh

import (
	"net"
	"slices"
	"time"

	"signalbox/broker/embedded/engine"
)

// send writes routes, messages and signs of life until the link breaks.
func (l *link) send(conn net.Conn, broken <-chan struct{}) error {
	out := &sender{link: l, conn: conn}
	if err := out.routes(l.mesh.table.join(l.audience)); err != nil {
		return err
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		if err := out.all(); err != nil {
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

// sender gathers what is written at once.
type sender struct {
	link  *link
	conn  net.Conn
	buf   []byte
	batch []parcel
}

// all writes what there is to be sent.
func (s *sender) all() error {
	for {
		if r := s.link.mesh.table.next(s.link.audience); r != nil {
			if err := s.routes(r); err != nil {
				return err
			}
		}
		s.gather()
		if len(s.buf) == 0 {
			return nil
		}
		if err := s.write(s.buf); err != nil {
			return err
		}
		s.buf = s.buf[:0]
		if cap(s.buf) > 4*batchBytes {
			s.buf = nil // it was for a large message
		}
	}
}

// routes encodes routes, and writes what is too much to be kept.
func (s *sender) routes(r *routes) (err error) {
	s.buf, err = r.appendAll(s.buf, s.write)
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

// gather encodes the messages that are next.
func (s *sender) gather() {
	l := s.link
	l.mu.Lock()
	var repeated int
	s.batch, repeated = l.queue.take(s.batch[:0], batchBytes)
	l.totals.Sent += int64(len(s.batch))
	l.totals.Repeated += int64(repeated)
	l.release()
	l.mu.Unlock()
	for i := range s.batch {
		s.buf = appendParcel(s.buf, &s.batch[i])
	}
	clear(s.batch)
}

// listen takes the answers of the other node until the link breaks.
func (l *link) listen(conn net.Conn, in *reader) error {
	var receipts []engine.Receipt
	for {
		kind, body, ok, err := in.next()
		if err != nil {
			return err
		}
		if !ok {
			conn.SetReadDeadline(time.Now().Add(silence)) //nolint:errcheck // reading will tell
			if err := in.fill(); err != nil {
				return err
			}
			continue
		}
		if kind == framePing {
			continue
		}
		n, err := decodeNumbered(body)
		if err != nil {
			return err
		}
		switch kind {
		case frameKnown:
			l.mesh.table.ack(l.audience, n.number)
		case frameDone:
			receipts = l.confirm(n.number, receipts[:0])
		case frameRefused:
			l.refuse(n.number)
		case frameUntaken:
			l.reassign(n)
		default:
			return errFrame
		}
	}
}

// confirm lets the messages up to a number be acknowledged.
func (l *link) confirm(number uint64, receipts []engine.Receipt) []engine.Receipt {
	l.mu.Lock()
	receipts = l.queue.confirm(number, receipts)
	l.release()
	l.mu.Unlock()
	for i, r := range receipts {
		receipts[i] = nil
		r.Settled(nil)
	}
	return receipts
}

// refuse has a message refused that could not be stored.
func (l *link) refuse(number uint64) {
	l.mu.Lock()
	var receipt engine.Receipt
	if p := l.queue.find(number); p != nil {
		receipt, p.Receipt = p.Receipt, nil
		l.totals.Refused++
	}
	l.mu.Unlock()
	if receipt != nil {
		receipt.Settled(errRefused)
	}
}

// reassign gives a message to other members of shared subscriptions, once: a new
// connection tells again what was told before.
func (l *link) reassign(n numbered) {
	l.mu.Lock()
	p := l.queue.find(n.number)
	if p == nil {
		l.mu.Unlock()
		return
	}
	names, left := divide(p.Shares, n.names)
	if len(names) == 0 {
		l.mu.Unlock()
		return
	}
	p.Shares = left
	m, receipt := p.message, p.Receipt
	if receipt != nil {
		both := newJoint(receipt)
		p.Receipt, receipt = both, both
	}
	l.mu.Unlock()
	l.peer.handle.Reassign(m, names, receipt)
}

// divide parts names into those that are among others and those that are left, in
// new slices.
func divide(names, among []string) (those, left []string) {
	for _, name := range names {
		if slices.Contains(among, name) {
			those = append(those, name)
		} else {
			left = append(left, name)
		}
	}
	return those, left
}
