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

// maxPending is how many requests wait for answers on one line. One more is
// refused with ErrBusy.
const maxPending = 256

// line is a connection to another node on which requests are asked, many at once.
type line struct {
	conn net.Conn

	writing sync.Mutex // one frame at a time

	mu      sync.Mutex // guards the fields below; never held during I/O
	last    uint64
	pending map[uint64]chan frame // buffered by one
	broken  chan struct{}         // closed when nothing comes any more
	isOver  bool
	retired bool // it ends when nothing is pending
}

func newLine(conn net.Conn) *line {
	return &line{conn: conn, pending: map[uint64]chan frame{}, broken: make(chan struct{})}
}

// read hands out answers until the connection ends.
func (l *line) read() {
	defer l.end()
	for r := bufio.NewReader(l.conn); ; {
		f, err := readFrame(r)
		if err != nil {
			return
		}
		if answer := l.take(f.id); answer != nil {
			answer <- f
		}
	}
}

// drop ends a request. The last one of a line that is retired ends the line.
func (l *line) drop(id uint64) {
	l.take(id)
	l.mu.Lock()
	last := l.retired && len(l.pending) == 0
	l.mu.Unlock()
	if last {
		l.end()
	}
}

// take takes a request off those that wait, for its answer.
func (l *line) take(id uint64) chan frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	answer := l.pending[id]
	delete(l.pending, id)
	return answer
}

// end ends the line. Those who wait do not learn what came of their requests.
func (l *line) end() {
	l.mu.Lock()
	again := l.isOver
	l.isOver = true
	l.mu.Unlock()
	if !again {
		close(l.broken)
		l.conn.Close()
	}
}

var errOver = errors.New("the connection has ended")

func (l *line) begin() (id uint64, answer chan frame, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOver {
		return 0, nil, errOver
	}
	if len(l.pending) >= maxPending {
		return 0, nil, ErrBusy
	}
	l.last++
	answer = make(chan frame, 1)
	l.pending[l.last] = answer
	return l.last, answer, nil
}

// ask sends a request and waits for its answer. Its errors are ErrUnconfirmed
// unless surely nothing was sent.
func (l *line) ask(ctx context.Context, kind byte, payload []byte) (frame, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return frame{}, errors.New("a request to another node needs an end")
	}
	id, answer, err := l.begin()
	if err != nil {
		return frame{}, err
	}
	defer l.drop(id)
	left := max(time.Until(deadline), time.Millisecond)
	if err := l.write(frame{id: id, kind: kind, number: uint64(left.Milliseconds()), payload: payload}, deadline); err != nil {
		return frame{}, unconfirmed(err)
	}
	select {
	case f := <-answer:
		return f, nil
	case <-ctx.Done():
		return frame{}, unconfirmed(context.Cause(ctx))
	case <-l.broken:
	}
	select {
	case f := <-answer: // it came before the end
		return f, nil
	default:
		return frame{}, unconfirmed(errOver)
	}
}

func (l *line) write(f frame, deadline time.Time) error {
	b := f.append(nil)
	l.writing.Lock()
	defer l.writing.Unlock()
	l.conn.SetWriteDeadline(deadline)
	if _, err := l.conn.Write(b); err != nil {
		l.end() // part of the frame may have gone
		return err
	}
	return nil
}

// exchange holds a line to each node that this one asks.
type exchange struct {
	credentials *credentials
	ctx         context.Context // ends what is being connected
	call        time.Duration   // for a connection

	mu     sync.Mutex // guards the fields below
	closed bool
	lines  map[Member]*extension
	wg     sync.WaitGroup
}

// extension is the place of a line. Whoever holds its turn makes it.
type extension struct {
	turn chan struct{}
	line *line
}

// newExchange makes one whose lines show credentials, until a context ends.
func newExchange(ctx context.Context, b *credentials, call time.Duration) *exchange {
	return &exchange{credentials: b, ctx: ctx, call: call, lines: map[Member]*extension{}}
}

// dial connects to another node.
func dial(ctx context.Context, b *credentials, to ref, hostPort, protocol string) (net.Conn, error) {
	own := b.own.Load()
	raw, err := b.dial(ctx, hostPort)
	if err != nil {
		return nil, fmt.Errorf("connect to node %v: %w", to, err)
	}
	conn := tls.Client(raw, b.client(to, protocol))
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, fmt.Errorf("connect to node %v: %w", to, err)
	}
	p, err := b.read(conn.ConnectionState())
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("connect to node %v: %w", to, err)
	}
	return checked{abrupt{conn}, b, p, own}, nil
}

// abrupt is a connection that ends at once: the other side is told nothing that
// could keep this one waiting.
type abrupt struct{ *tls.Conn }

// Close ends the connection.
func (a abrupt) Close() error { return a.NetConn().Close() }

// ask asks a node. Its errors are ErrUnconfirmed unless surely nothing was sent.
func (x *exchange) ask(ctx context.Context, m Member, kind byte, payload []byte) (frame, error) {
	l, err := x.line(ctx, m)
	if err != nil {
		return frame{}, err
	}
	return l.ask(ctx, kind, payload)
}

// line gives the line to a node, which it makes if need be.
func (x *exchange) line(ctx context.Context, m Member) (*line, error) {
	e, err := x.enter(ctx, m)
	if err != nil {
		return nil, err
	}
	defer func() { <-e.turn }()
	if e.line != nil && !e.line.over() {
		if !e.line.isStale() {
			return e.line, nil
		}
		e.line.retire()
	}
	ctx, cancel := context.WithTimeout(ctx, x.call)
	defer cancel()
	defer context.AfterFunc(x.ctx, cancel)()
	conn, err := dial(ctx, x.credentials, m.ref(), m.hostPort(), protocolRPC)
	if err != nil {
		return nil, err
	}
	l := newLine(conn)
	if !x.start(l) {
		conn.Close()
		return nil, ErrClosed
	}
	e.line = l
	return l, nil
}

// enter waits for the turn at the place of a line. The caller gives it back.
func (x *exchange) enter(ctx context.Context, m Member) (*extension, error) {
	for {
		x.mu.Lock()
		e := x.lines[m]
		if e == nil {
			e = &extension{turn: make(chan struct{}, 1)}
			x.lines[m] = e
		}
		x.mu.Unlock()
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		x.mu.Lock()
		isCurrent := x.lines[m] == e
		x.mu.Unlock()
		if isCurrent {
			return e, nil
		}
		<-e.turn // the line was given up meanwhile: close does not know this place any more
	}
}

// isStale reports whether no more requests should be asked on the line.
func (l *line) isStale() bool {
	c, ok := l.conn.(checked)
	return ok && c.isStale()
}

// retire ends the line once its last request is answered. Others are asked on another
// line.
func (l *line) retire() {
	l.mu.Lock()
	l.retired = true
	idle := len(l.pending) == 0
	l.mu.Unlock()
	if idle {
		l.end()
	}
}

// allowLast has a last request go to a node that is not a member any more.
func (l *line) allowLast() {
	if c, ok := l.conn.(checked); ok {
		c.peer.isTold.Store(true)
	}
}

func (l *line) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOver
}

// start reads a line, unless the exchange is closed.
func (x *exchange) start(l *line) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return false
	}
	x.wg.Go(l.read)
	return true
}

// hangUp ends the line to a node that does not answer any more.
func (x *exchange) hangUp(m Member) {
	if l := x.detach(m); l != nil {
		l.end()
	}
}

// detach returns the line to a node, nil for none, which its caller ends. The next request
// to that node makes another one.
func (x *exchange) detach(m Member) *line {
	x.mu.Lock()
	e := x.lines[m]
	delete(x.lines, m)
	x.mu.Unlock()
	if e == nil {
		return nil
	}
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	return e.line
}

// cut ends the lines to those who are not to have one any more.
func (x *exchange) cut(unwanted func(to ref) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for m := range x.lines {
		if !x.closed && unwanted(m.ref()) {
			x.wg.Go(func() { x.hangUp(m) })
		}
	}
}

// close ends all lines, after its context has ended.
func (x *exchange) close() {
	x.mu.Lock()
	x.closed = true
	all := x.lines
	x.lines = map[Member]*extension{}
	x.mu.Unlock()
	for _, e := range all {
		e.turn <- struct{}{}
		if e.line != nil {
			e.line.end()
		}
		<-e.turn
	}
	x.wg.Wait()
}
