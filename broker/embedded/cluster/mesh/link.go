package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"signalbox/broker/embedded/engine"
)

// How a link is kept, and given up.
const (
	pingEvery   = time.Second
	silence     = 3 * time.Second // after which the other node is taken for dead
	shakeWithin = 3 * time.Second // to connect, and to say hello
	firstWait   = 50 * time.Millisecond
	longestWait = 2 * time.Second // before the next attempt to connect
	roomWithin  = 5 * time.Second // how long publishers are kept waiting for room
)

// batchBytes is about how much is written at once.
const batchBytes = 64 << 10

// errFull refuses a message above QoS 0 that finds no room, and errClosed one
// that was not confirmed before the end.
var (
	errFull   = errors.New("too much waits for another node of the cluster")
	errClosed = errors.New("the node is being closed")
	// errRefused says that the other node could not store a message.
	errRefused = errors.New("another node of the cluster cannot store the message")
)

// link is the way of messages and routes to one other node.
type link struct {
	mesh *Mesh
	peer *peer
	wake chan struct{} // there is something to be sent
	try  chan struct{} // the other node is there, so it can be connected to

	audience *audience

	mu      sync.Mutex // guards what follows; an innermost lock, held for moments only
	queue   queue
	linked  bool
	lost    bool          // for longer than the grace, or for ever: nothing waits any more
	closed  error         // with which messages are refused then; nil for none
	room    chan struct{} // closed when there is room again; nil while there is
	empty   chan struct{} // closed when nothing waits, or the node cannot be reached; nil where nobody cares
	flushes []flush
	totals  Figures
}

func newLink(m *Mesh, p *peer) *link {
	l := &link{mesh: m, peer: p, wake: make(chan struct{}, 1), try: make(chan struct{}, 1)}
	l.audience = &audience{wake: l.rouse}
	return l
}

// rouse has the link look for what is to be sent.
func (l *link) rouse() { signal(l.wake) }

// signal wakes whoever waits at a channel, or will.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Take queues a message.
func (l *link) Take(m *engine.Message, c engine.Crossing) {
	p := parcel{message: m, Crossing: c}
	l.mu.Lock()
	err := l.admit(&p)
	l.mu.Unlock()
	if err != nil {
		if c.Receipt != nil {
			c.Receipt.Settled(err)
		}
		return
	}
	l.rouse()
}

// admit queues a message, or tells why not. mu is held.
func (l *link) admit(p *parcel) error {
	switch {
	case l.closed != nil:
		return l.closed
	case l.lost && p.QoS > 0:
		l.lose(p)
		return engine.ErrGone
	case !l.linked && p.QoS == 0:
		l.totals.Dropped++
		return engine.ErrGone
	case l.queue.full(p):
		if p.QoS > 0 {
			l.totals.Refused++
		} else {
			l.totals.Dropped++
		}
		return errFull
	}
	l.queue.push(*p)
	if l.room == nil && l.queue.half() {
		l.room = make(chan struct{})
	}
	return nil
}

// Backlog tells how many messages wait, and whether that is more than half of
// what may.
func (l *link) Backlog() (messages int, half bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.waiting(), l.room != nil
}

// Room waits while more than half of what may wait does and the node can be
// reached.
func (l *link) Room() {
	l.mu.Lock()
	room, wait := l.room, l.linked && l.room != nil
	l.mu.Unlock()
	if !wait {
		return
	}
	timeout := time.NewTimer(roomWithin)
	defer timeout.Stop()
	select {
	case <-room:
	case <-timeout.C:
	}
}

// drain waits until nothing waits for the other node any more, as long as that
// can be reached.
func (l *link) drain(ctx context.Context) {
	l.mu.Lock()
	if l.empty == nil {
		l.empty = make(chan struct{})
	}
	empty := l.empty
	l.release()
	l.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// release lets those go on who wait for room, or for everything to be sent. mu is
// held.
func (l *link) release() {
	if l.room != nil && (!l.linked || !l.queue.half()) {
		close(l.room)
		l.room = nil
	}
	l.releaseFlushes()
	if l.empty != nil && (!l.linked || l.queue.waiting() == 0) {
		close(l.empty)
		l.empty = nil
	}
}

// run keeps the link up until the context ends.
func (l *link) run(ctx context.Context) {
	wait, began := firstWait, time.Now()
	for ctx.Err() == nil {
		up, err := l.attempt(ctx)
		if up {
			wait = firstWait
		} else if time.Since(began) > startTogether {
			l.peer.hear()
		}
		l.mesh.log.Debug("no link to a node", "node", l.peer.id, "error", err, "was up", up)
		select {
		case <-time.After(wait):
		case <-l.try:
		case <-ctx.Done():
		}
		wait = min(2*wait, longestWait)
	}
}

// attempt connects and serves the link until it breaks. It tells whether it was
// up.
func (l *link) attempt(ctx context.Context) (up bool, err error) {
	dialing, cancel := context.WithTimeout(ctx, shakeWithin)
	defer cancel()
	conn, err := l.mesh.net.Dial(dialing, l.peer.id)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing is to be saved
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := newReader(conn)
	w, err := l.shake(conn, in)
	if err != nil {
		return false, fmt.Errorf("say hello: %w", err)
	}
	l.up(w)
	defer l.down()
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		defer conn.Close() //nolint:errcheck // it is of no use any more
		err := l.listen(conn, in)
		l.mesh.log.Debug("a link broke", "node", l.peer.id, "error", err)
	}()
	err = l.send(conn, broken)
	conn.Close() //nolint:errcheck // so that the other goroutine ends
	<-broken
	return true, err
}

// shake says hello and waits for the answer.
func (l *link) shake(conn net.Conn, in *reader) (w welcome, err error) {
	conn.SetDeadline(time.Now().Add(shakeWithin)) //nolint:errcheck // reading will tell
	if _, err := conn.Write(appendHello(nil, hello{node: l.mesh.self, incarnation: l.mesh.incarnation})); err != nil {
		return w, err
	}
	kind, body, err := in.frame()
	if err != nil {
		return w, err
	}
	if kind != frameWelcome {
		return w, errFrame
	}
	conn.SetDeadline(time.Time{}) //nolint:errcheck // reading will tell
	return decodeWelcome(body)
}

// up begins a link: what the other node does not have is sent again.
func (l *link) up(w welcome) {
	l.mu.Lock()
	l.linked, l.lost = true, false
	if !w.knows {
		w.received = 0
	}
	l.queue.resume(w.received)
	l.mu.Unlock()
	l.peer.reached()
}

// down ends it. Messages wait for the next one.
func (l *link) down() {
	l.mesh.table.leave(l.audience)
	l.mu.Lock()
	l.linked = false
	l.release()
	l.mu.Unlock()
	l.peer.unreached()
}

// lose counts a message whose publisher is acknowledged though the node does not get
// it. mu is held.
func (l *link) lose(p *parcel) {
	if !p.Kept {
		l.totals.GivenUp++
		l.mesh.losses.Add(LostUnreachable, l.peer.id, 1)
	}
}

// countLost is lose for one that was waiting.
func (l *link) countLost(p *parcel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(p)
}

// giveUp ends the wait for the other node, unless it is reached now; with an error
// for ever. It gives the messages above QoS 0 that are not sent there any more.
func (l *link) giveUp(err error) (waiting []parcel, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.linked {
		return nil, false
	}
	l.lost, l.closed = true, err
	waiting = l.queue.clear()
	l.release()
	return waiting, true
}
