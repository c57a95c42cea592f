package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// maxPending is how many requests may be pending on one connection. One more fails with
// ErrBusy.
const maxPending = 256

// rpcConn is a connection to another node for requests, many at once.
type rpcConn struct {
	conn net.Conn

	writing sync.Mutex // one frame at a time

	mu      sync.Mutex // guards the fields below; never held during I/O
	last    uint64
	pending map[uint64]chan frame // buffered by one
	ended   chan struct{}         // closed with the connection
	closed  bool
	retired bool // it is closed when nothing is pending
}

func newRPCConn(conn net.Conn) *rpcConn {
	return &rpcConn{conn: conn, pending: map[uint64]chan frame{}, ended: make(chan struct{})}
}

// read passes responses to their requests until the connection ends.
func (l *rpcConn) read() {
	defer l.close()
	for r := bufio.NewReader(l.conn); ; {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		if answer := l.takePending(f.id); answer != nil {
			answer <- f
		}
	}
}

// release ends a request. The last one of a retired connection closes it.
func (l *rpcConn) release(id uint64) {
	l.takePending(id)
	l.mu.Lock()
	last := l.retired && len(l.pending) == 0
	l.mu.Unlock()
	if last {
		l.close()
	}
}

// takePending removes a pending request, and returns the channel for its response.
func (l *rpcConn) takePending(id uint64) chan frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := l.pending[id]
	delete(l.pending, id)
	return answer
}

// close closes the connection. The outcome of pending requests stays unknown.
func (l *rpcConn) close() {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	l.mu.Unlock()
	if !again {
		close(l.ended)
		l.conn.Close()
	}
}

var errConnEnded = errors.New("the connection has ended")

func (l *rpcConn) begin() (id uint64, answer chan frame, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, nil, errConnEnded
	}
	if len(l.pending) >= maxPending {
		return 0, nil, ErrBusy
	}
	l.last++
	answer = make(chan frame, 1)
	l.pending[l.last] = answer
	return l.last, answer, nil
}

// ask sends a request and waits for the response. Its errors are ErrUnconfirmed unless nothing
// was sent.
func (l *rpcConn) ask(ctx context.Context, kind byte, payload []byte) (frame, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return frame{}, errors.New("a request to another node needs a deadline")
	}
	id, answer, err := l.begin()
	if err != nil {
		return frame{}, err
	}
	defer l.release(id)
	left := max(time.Until(deadline), time.Millisecond)
	if err := l.write(frame{id: id, kind: kind, number: uint64(left.Milliseconds()), payload: payload}, deadline); err != nil {
		return frame{}, unconfirmed(err)
	}
	select {
	case f := <-answer:
		return f, nil
	case <-ctx.Done():
		return frame{}, unconfirmed(context.Cause(ctx))
	case <-l.ended:
	}
	select {
	case f := <-answer: // received before the end of the connection
		return f, nil
	default:
		return frame{}, unconfirmed(errConnEnded)
	}
}

func (l *rpcConn) write(f frame, deadline time.Time) error {
	b := f.append(nil)
	l.writing.Lock()
	defer l.writing.Unlock()
	l.conn.SetWriteDeadline(deadline)
	if _, err := l.conn.Write(b); err != nil {
		l.close() // a part of the frame may have been sent
		return err
	}
	return nil
}

// connPool holds one connection to each node.
type connPool struct {
	credentials *credentials
	ctx         context.Context // of connection attempts
	call        time.Duration   // for a connection

	mu      sync.Mutex // guards the fields below
	closed  bool
	entries map[Member]*poolEntry
	wg      sync.WaitGroup
}

// poolEntry is a connection in a pool. The holder of its lock connects.
type poolEntry struct {
	lock chan struct{}
	conn *rpcConn
}

// newConnPool returns a pool whose connections use credentials, until a context ends.
func newConnPool(ctx context.Context, b *credentials, call time.Duration) *connPool {
	return &connPool{credentials: b, ctx: ctx, call: call, entries: map[Member]*poolEntry{}}
}

// dial connects to another node.
func dial(ctx context.Context, b *credentials, to memberRef, hostPort, protocol string) (checked, error) {
	own := b.own.Load()
	raw, err := b.dial(ctx, hostPort)
	if err != nil {
		return checked{}, fmt.Errorf("connect to node %v: %w", to, err)
	}
	conn := tls.Client(raw, b.client(to, protocol))
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return checked{}, fmt.Errorf("connect to node %v: %w", to, err)
	}
	p, err := b.accepted(conn.ConnectionState())
	if err != nil {
		raw.Close()
		return checked{}, fmt.Errorf("connect to node %v: %w", to, err)
	}
	return checked{noCloseNotify{conn}, b, p, own}, nil
}

// noCloseNotify is a connection that is closed without close_notify, which could block.
type noCloseNotify struct{ *tls.Conn }

// Close ends the connection.
func (a noCloseNotify) Close() error { return a.NetConn().Close() }

// ask sends a request to a node. Its errors are ErrUnconfirmed unless nothing was sent.
func (x *connPool) ask(ctx context.Context, m Member, kind byte, payload []byte) (frame, error) {
	l, err := x.get(ctx, m)
	if err != nil {
		return frame{}, err
	}
	return l.ask(ctx, kind, payload)
}

// get returns the connection to a node, and opens it if necessary.
func (x *connPool) get(ctx context.Context, m Member) (*rpcConn, error) {
	e, err := x.lockEntry(ctx, m)
	if err != nil {
		return nil, err
	}
	defer func() { <-e.lock }()
	if e.conn != nil && !e.conn.isClosed() {
		if !e.conn.isStale() {
			return e.conn, nil
		}
		e.conn.retire()
	}
	ctx, cancel := context.WithTimeout(ctx, x.call)
	defer cancel()
	defer context.AfterFunc(x.ctx, cancel)()
	conn, err := dial(ctx, x.credentials, m.ref(), m.hostPort(), protocolRPC)
	if err != nil {
		return nil, err
	}
	l := newRPCConn(conn)
	if !x.start(l) {
		conn.Close()
		return nil, ErrClosed
	}
	e.conn = l
	return l, nil
}

// lockEntry locks the entry of a node. The caller unlocks it.
func (x *connPool) lockEntry(ctx context.Context, m Member) (*poolEntry, error) {
	for {
		x.mu.Lock()
		e := x.entries[m]
		if e == nil {
			e = &poolEntry{lock: make(chan struct{}, 1)}
			x.entries[m] = e
		}
		x.mu.Unlock()
		select {
		case e.lock <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		x.mu.Lock()
		isCurrent := x.entries[m] == e
		x.mu.Unlock()
		if isCurrent {
			return e, nil
		}
		<-e.lock // the entry was removed meanwhile, so close would miss it
	}
}

// isStale reports whether new requests should use another connection.
func (l *rpcConn) isStale() bool {
	c, ok := l.conn.(checked)
	return ok && c.isStale()
}

// retire closes the connection once its last request is answered. New requests use
// another one.
func (l *rpcConn) retire() {
	l.mu.Lock()
	l.retired = true
	idle := len(l.pending) == 0
	l.mu.Unlock()
	if idle {
		l.close()
	}
}

// allowLast permits a last request to a node that is no longer a member.
func (l *rpcConn) allowLast() {
	if c, ok := l.conn.(checked); ok {
		c.peer.notifiesRemoval.Store(true)
	}
}

func (l *rpcConn) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// start reads a connection, unless the pool is closed.
func (x *connPool) start(l *rpcConn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	x.wg.Go(l.read)
	return true
}

// drop closes the connection to a node that does not answer.
func (x *connPool) drop(m Member) {
	if l := x.detach(m); l != nil {
		l.close()
	}
}

// detach removes the connection to a node from the pool and returns it, nil for none. The
// caller closes it. The next request to that node opens another one.
func (x *connPool) detach(m Member) *rpcConn {
	x.mu.Lock()
	e := x.entries[m]
	delete(x.entries, m)
	x.mu.Unlock()
	if e == nil {
		return nil
	}
	e.lock <- struct{}{}
	defer func() { <-e.lock }()
	return e.conn
}

// closeUnwanted closes the connections to nodes that are no longer members.
func (x *connPool) closeUnwanted(unwanted func(to memberRef) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for m := range x.entries {
		if !x.closed && unwanted(m.ref()) {
			x.wg.Go(func() { x.drop(m) })
		}
	}
}

// close closes all connections, after its context has ended.
func (x *connPool) close() {
	x.mu.Lock()
	x.closed = true
	all := x.entries
	x.entries = map[Member]*poolEntry{}
	x.mu.Unlock()
	for _, e := range all {
		e.lock <- struct{}{}
		if e.conn != nil {
			e.conn.close()
		}
		<-e.lock
	}
	x.wg.Wait()
}
