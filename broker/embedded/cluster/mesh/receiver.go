package mesh

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/embedded/cluster/mesh/backlog"
	"signalbox/broker/embedded/engine"
)

// receiver serves the connections that one peer dials.
type receiver struct {
	peer            *peer
	messages, bytes atomic.Int64

	mu      sync.Mutex   // guards what follows
	acks    *ackTracker  // of the peer's latest incarnation, or nil
	current *inboundConn // the latest connection, or nil
}

// inboundConn is a connection that is being served.
type inboundConn struct {
	conn net.Conn
	done chan struct{}
}

func newReceiver(p *peer) *receiver { return &receiver{peer: p} }

// serve handles the frames of a connection until it breaks.
func (i *receiver) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // nothing is lost
	defer context.AfterFunc(i.peer.ctx, func() { conn.Close() })()
	in := newReader(conn)
	h, err := i.readHello(conn, in)
	if err != nil {
		i.peer.mesh.log.Debug("a node sent no valid hello", "node", i.peer.id, "error", err)
		return
	}
	ended := i.replace(conn)
	defer ended()
	notify(i.peer.link.dialNow)
	err = i.run(conn, in, h.incarnation)
	i.peer.mesh.log.Debug("the connection from a node broke", "node", i.peer.id, "error", err)
}

// readHello reads the first frame.
func (i *receiver) readHello(conn net.Conn, in *reader) (h hello, err error) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout)) //nolint:errcheck // reading fails as well
	kind, body, err := in.frame()
	if err != nil {
		return h, err
	}
	if kind != frameHello {
		return h, errFrame
	}
	if h, err = decodeHello(body); err == nil && h.node != i.peer.id {
		err = fmt.Errorf("hello came from node %d", h.node)
	}
	return h, err
}

// replace closes the previous connection and waits for its end, so that frames are handled in
// order. ended must be called when this one ends.
func (i *receiver) replace(conn net.Conn) (ended func()) {
	c := &inboundConn{conn, make(chan struct{})}
	i.mu.Lock()
	previous := i.current
	i.current = c
	i.mu.Unlock()
	if previous != nil {
		previous.conn.Close() //nolint:errcheck // replaced
		<-previous.done
	}
	return func() { i.connectionEnded(c) }
}

// connectionEnded records the end of a connection. The peer's routes stay: its sessions need
// messages whether it can be reached or not.
func (i *receiver) connectionEnded(c *inboundConn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	close(c.done)
	if i.current == c {
		i.current = nil
	}
}

// tracker returns the acknowledgement state of an incarnation, and whether it was known.
func (i *receiver) tracker(incarnation uint64) (l *ackTracker, known bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known = i.acks != nil && i.acks.incarnation == incarnation; !known {
		i.acks = newAckTracker(incarnation)
	}
	return i.acks, known
}

// run responds to hello and handles frames.
func (i *receiver) run(conn net.Conn, in *reader, incarnation uint64) error {
	l, known := i.tracker(incarnation)
	l.mu.Lock()
	w := welcome{known: known, received: l.received}
	l.routes = 0
	l.mu.Unlock()
	if _, err := conn.Write(appendWelcome(nil, w)); err != nil {
		return err
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // reading fails as well
	broken := make(chan struct{})
	var answering sync.WaitGroup
	answering.Go(func() { l.sendAcks(conn, broken) })
	defer answering.Wait()
	defer close(broken)
	c := &dispatcher{receiver: i, acks: l, engine: i.peer.mesh.engine.NewReceiver()}
	err := c.run(conn, in)
	conn.Close() //nolint:errcheck // so that sendAcks ends
	return err
}

// sendAcks sends acknowledgements and pings until the connection breaks.
func (l *ackTracker) sendAcks(conn net.Conn, broken <-chan struct{}) {
	var sent sentAcks
	var buf []byte
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		select {
		case <-l.wake:
		case <-ping.C:
			buf = appendPing(buf)
		case <-broken:
			return
		}
		if buf = l.appendTo(buf, &sent); len(buf) == 0 {
			continue
		}
		if _, err := conn.Write(buf); err != nil {
			conn.Close() //nolint:errcheck // so that reading ends
			return
		}
		buf = buf[:0]
	}
}

// dispatcher passes the frames of one connection to the engine.
type dispatcher struct {
	receiver  *receiver
	acks      *ackTracker
	engine    *engine.Receiver
	interner  interner
	fullTable bool // a full table is being received
}

// run handles frames until the connection breaks.
func (c *dispatcher) run(conn net.Conn, in *reader) error {
	defer c.engine.Flush()
	for {
		kind, body, ok, err := in.next()
		if err != nil {
			return err
		}
		if ok {
			if err := c.handle(kind, body); err != nil {
				return err
			}
			continue
		}
		c.acks.setReceiving(false)
		c.engine.Flush()
		conn.SetReadDeadline(time.Now().Add(c.receiver.peer.mesh.idleTimeout)) //nolint:errcheck // reading fails as well
		before := in.bytes
		if err := in.fill(); err != nil {
			return err
		}
		c.receiver.bytes.Add(in.bytes - before)
		c.acks.setReceiving(true)
	}
}

// adjustTimes converts the times of a message to this node's clock. A retained message keeps
// its times, because they identify it at all nodes.
func (c *dispatcher) adjustTimes(m *engine.Message) {
	if !m.Retain {
		m.Postpone(-c.receiver.peer.mesh.clockOffset(c.receiver.peer.id))
	}
}

// handle handles one frame.
func (c *dispatcher) handle(kind byte, body []byte) error {
	switch kind {
	case frameMessage:
		p, err := decodeMessage(body, &c.interner)
		if err != nil {
			return err
		}
		c.adjustTimes(p.message)
		c.deliver(&p)
	case frameRoutes:
		r, err := decodeRoutes(body)
		if err != nil {
			return err
		}
		c.applyRoutes(&r)
	case framePing:
	default:
		return errFrame
	}
	return nil
}

// deliver passes a message to the engine, unless it is a duplicate.
func (c *dispatcher) deliver(p *messageFrame) {
	if p.number == 0 {
		c.receiver.messages.Add(1)
		c.engine.Receive(p.message, p.Forward, p.late)
		return
	}
	s := c.acks.add(p.number)
	if s == nil {
		return
	}
	c.receiver.messages.Add(1)
	p.Receipt = s
	s.delivered(c.engine.Receive(p.message, p.Forward, p.late))
}

// applyRoutes applies changes of the peer's subscriptions.
func (c *dispatcher) applyRoutes(r *routes) {
	p := c.receiver.peer
	if r.full {
		p.handle.Renew()
		c.fullTable = true
	}
	changed := p.applyRoutes(r.list)
	if r.last && c.fullTable {
		for _, filter := range p.handle.Prune() {
			changed = append(changed, backlog.Route{Filter: filter, Removed: true})
		}
	}
	complete := r.last && c.fullTable
	if len(changed) > 0 || complete && !p.routesKnown.Load() {
		p.link.backlog.PutRoutes(changed, complete)
	}
	if !r.last {
		return
	}
	if complete {
		c.fullTable = false
		p.tableReceived()
	}
	c.acks.mu.Lock()
	c.acks.routes = r.number
	c.acks.mu.Unlock()
}
