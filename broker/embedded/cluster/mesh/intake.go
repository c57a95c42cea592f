package mesh

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/embedded/engine"
)

// intake is what comes from one other node.
type intake struct {
	peer            *peer
	messages, bytes atomic.Int64

	mu      sync.Mutex // guards what follows
	ledger  *ledger    // of the node's latest incarnation; nil for none
	serving *serving   // the latest connection; nil for none
}

// serving is a connection that is served.
type serving struct {
	conn net.Conn
	done chan struct{}
}

func newIntake(p *peer) *intake { return &intake{peer: p} }

// serve takes what comes over a connection until it breaks.
func (i *intake) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // nothing is to be saved
	defer context.AfterFunc(i.peer.life, func() { conn.Close() })()
	in := newReader(conn)
	h, err := i.greet(conn, in)
	if err != nil {
		i.peer.mesh.log.Debug("a node did not say hello", "node", i.peer.id, "error", err)
		return
	}
	leave := i.replace(conn)
	defer leave()
	signal(i.peer.link.try)
	err = i.run(conn, in, h.incarnation)
	i.peer.mesh.log.Debug("the link of a node broke", "node", i.peer.id, "error", err)
}

// greet waits for hello.
func (i *intake) greet(conn net.Conn, in *reader) (h hello, err error) {
	conn.SetDeadline(time.Now().Add(shakeWithin)) //nolint:errcheck // reading will tell
	kind, body, err := in.frame()
	if err != nil {
		return h, err
	}
	if kind != frameHello {
		return h, errFrame
	}
	if h, err = decodeHello(body); err == nil && h.node != i.peer.id {
		err = fmt.Errorf("it says it is node %d", h.node)
	}
	return h, err
}

// replace ends the connection that was served before and waits for that: what
// comes over this one comes after it. leave must follow.
func (i *intake) replace(conn net.Conn) (leave func()) {
	me := &serving{conn, make(chan struct{})}
	i.mu.Lock()
	former := i.serving
	i.serving = me
	i.mu.Unlock()
	if former != nil {
		former.conn.Close() //nolint:errcheck // it is of no use any more
		<-former.done
	}
	return func() { i.leave(me) }
}

// leave ends a connection. The node's routes stay: its sessions wait for messages
// whether it can be reached or not.
func (i *intake) leave(me *serving) {
	i.mu.Lock()
	defer i.mu.Unlock()
	close(me.done)
	if i.serving == me {
		i.serving = nil
	}
}

// book gives the ledger of the node's incarnation, and whether it is known.
func (i *intake) book(incarnation uint64) (l *ledger, known bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known = i.ledger != nil && i.ledger.incarnation == incarnation; !known {
		i.ledger = newLedger(incarnation)
	}
	return i.ledger, known
}

// run answers hello and takes frames.
func (i *intake) run(conn net.Conn, in *reader, incarnation uint64) error {
	l, knows := i.book(incarnation)
	l.mu.Lock()
	w := welcome{knows: knows, received: l.received}
	l.known = 0
	l.mu.Unlock()
	if _, err := conn.Write(appendWelcome(nil, w)); err != nil {
		return err
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // reading will tell
	broken := make(chan struct{})
	var answering sync.WaitGroup
	answering.Go(func() { l.answer(conn, broken) })
	defer answering.Wait()
	defer close(broken)
	c := &courier{intake: i, ledger: l, receiver: i.peer.mesh.engine.NewReceiver()}
	err := c.run(conn, in)
	conn.Close() //nolint:errcheck // so that the answers end
	return err
}

// answer tells the other node what is safe, and that this one is alive.
func (l *ledger) answer(conn net.Conn, broken <-chan struct{}) {
	var told answers
	var buf []byte
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		select {
		case <-l.wake:
		case <-ping.C:
			buf = appendPing(buf)
		case <-broken:
			return
		}
		if buf = l.append(buf, &told); len(buf) == 0 {
			continue
		}
		if _, err := conn.Write(buf); err != nil {
			conn.Close() //nolint:errcheck // so that reading ends
			return
		}
		buf = buf[:0]
	}
}

// courier hands out what comes over one connection.
type courier struct {
	intake   *intake
	ledger   *ledger
	receiver *engine.Receiver
	names    names
	whole    bool // a whole table of routes is coming
}

// run takes frames until the connection breaks.
func (c *courier) run(conn net.Conn, in *reader) error {
	defer c.receiver.Flush()
	for {
		kind, body, ok, err := in.next()
		if err != nil {
			return err
		}
		if ok {
			if err := c.take(kind, body); err != nil {
				return err
			}
			continue
		}
		c.ledger.receiving(false)
		c.receiver.Flush()
		conn.SetReadDeadline(time.Now().Add(silence)) //nolint:errcheck // reading will tell
		before := in.bytes
		if err := in.fill(); err != nil {
			return err
		}
		c.intake.bytes.Add(in.bytes - before)
		c.ledger.receiving(true)
	}
}

// translate gives a message the times of this node's clock. One to be retained keeps those
// that it has: by them all nodes know it as the one that is agreed upon.
func (c *courier) translate(m *engine.Message) {
	if !m.Retain {
		m.Postpone(-c.intake.peer.mesh.ahead(c.intake.peer.id))
	}
}

// take does what one frame says.
func (c *courier) take(kind byte, body []byte) error {
	switch kind {
	case frameMessage:
		p, err := decodeParcel(body, &c.names)
		if err != nil {
			return err
		}
		c.translate(p.message)
		c.deliver(&p)
	case frameRoutes:
		r, err := decodeRoutes(body)
		if err != nil {
			return err
		}
		c.routes(&r)
	case framePing:
	default:
		return errFrame
	}
	return nil
}

// deliver hands a message out, unless that was done before.
func (c *courier) deliver(p *parcel) {
	if p.number == 0 {
		c.intake.messages.Add(1)
		c.receiver.Receive(p.message, p.Crossing, p.late)
		return
	}
	s := c.ledger.note(p.number)
	if s == nil {
		return
	}
	c.intake.messages.Add(1)
	p.Receipt = s
	s.handed(c.receiver.Receive(p.message, p.Crossing, p.late))
}

// routes takes over what somebody is subscribed to at the other node.
func (c *courier) routes(r *routes) {
	handle := c.intake.peer.handle
	if r.whole {
		handle.Renew()
		c.whole = true
	}
	for _, one := range r.list {
		if one.gone {
			handle.Withdraw(one.filter)
		} else {
			handle.Announce(one.filter, one.Interest)
		}
	}
	if !r.last {
		return
	}
	if c.whole {
		handle.Prune()
		c.whole = false
		c.intake.peer.learned()
	}
	c.ledger.mu.Lock()
	c.ledger.known = r.number
	c.ledger.mu.Unlock()
}
