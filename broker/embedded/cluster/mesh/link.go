package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"signalbox/broker/embedded/cluster/mesh/backlog"
	"signalbox/broker/embedded/engine"
)

// Intervals and timeouts of a link.
const (
	pingInterval     = time.Second
	handshakeTimeout = 3 * time.Second // to dial, and to exchange hello and welcome
	minRetryDelay    = 50 * time.Millisecond
	maxRetryDelay    = 2 * time.Second // between attempts to dial
	maxSpaceWait     = 5 * time.Second // how long a publisher waits for space in the queue
)

// batchBytes is the approximate size of one write.
const batchBytes = 64 << 10

// errFull refuses a message above QoS 0 if the queue is full, and errClosed one that was not
// confirmed before Close.
var (
	errFull   = errors.New("the queue of another node of the cluster is full")
	errClosed = errors.New("the node is closing")
	// errRefused means that the other node could not store a message.
	errRefused = errors.New("another node of the cluster cannot store the message")
)

// link sends messages and routes to one peer.
type link struct {
	mesh    *Mesh
	peer    *peer
	wake    chan struct{} // there is something to send
	dialNow chan struct{} // the peer has connected, so it can be dialled

	recipient *recipient
	backlog   *backlog.Queue

	mu        sync.Mutex // guards what follows; a leaf lock, held briefly
	queue     queue
	linked    bool
	abandoned bool           // not linked for longer than the grace period, or removed
	storing   bool           // messages above QoS 0 go to the backlog: the peer is away, or has not received all of that
	loaded    uint64         // messages of the backlog up to this number were in the queue
	removable uint64         // messages of the backlog up to this number are confirmed
	moving    map[uint64]int // messages of the backlog that move to other nodes: they are not deleted yet
	retryAt   time.Time      // no more of the backlog is sent before that
	closed    error          // refuses messages, if set
	space     chan struct{}  // closed when there is space again; nil while there is
	drained   chan struct{}  // closed when the queue is empty or the link is down; nil without a waiter
	flushes   []flushWaiter
	totals    Figures
}

func newLink(m *Mesh, p *peer) *link {
	l := &link{mesh: m, peer: p, wake: make(chan struct{}, 1), dialNow: make(chan struct{}, 1), backlog: m.backlog.Queue(p.id), moving: map[uint64]int{}}
	l.storing = l.backlog.Totals().Messages > 0
	l.recipient = &recipient{wake: l.wakeSender}
	return l
}

// wakeSender makes the sender check for something to send.
func (l *link) wakeSender() { notify(l.wake) }

// notify wakes the receiver of a channel without blocking.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Take queues a message.
func (l *link) Take(m *engine.Message, c engine.Forward) {
	p := messageFrame{message: m, Forward: c}
	l.mu.Lock()
	err := l.enqueue(&p)
	l.mu.Unlock()
	if err != nil {
		if c.Receipt != nil {
			c.Receipt.Committed(err)
		}
		return
	}
	l.wakeSender()
}

// enqueue queues a message, or returns why not. l.mu must be held.
func (l *link) enqueue(p *messageFrame) error {
	switch {
	case l.closed != nil:
		return l.closed
	case l.abandoned && p.QoS > 0 && p.Temporary:
		l.countLossLocked(p)
		return engine.ErrGone
	case !l.linked && p.QoS == 0:
		l.totals.Dropped++
		return engine.ErrGone
	case l.storing && p.QoS > 0:
		if err := l.store(p); err != nil {
			return err
		}
	case l.queue.full(p):
		if p.QoS > 0 {
			l.totals.Refused++
		} else {
			l.totals.Dropped++
		}
		return errFull
	default:
		l.queue.push(*p)
	}
	if l.space == nil && l.overHalf() {
		l.space = make(chan struct{})
	}
	return nil
}

// overHalf reports whether the queue is more than half full or, while it is being sent, the
// backlog. l.mu must be held.
func (l *link) overHalf() bool {
	return l.queue.overHalf() || l.linked && l.storing && l.backlog.Totals().Bytes > l.mesh.maxBacklog/2
}

// Backlog returns the number of messages waiting, and reports whether the queue is more than
// half full.
func (l *link) Backlog() (messages int, half bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.waiting(), l.space != nil
}

// WaitForCapacity waits while the queue is more than half full and the link is up.
func (l *link) WaitForCapacity() {
	l.mu.Lock()
	space, wait := l.space, l.linked && l.space != nil
	l.mu.Unlock()
	if !wait {
		return
	}
	timeout := time.NewTimer(maxSpaceWait)
	defer timeout.Stop()
	select {
	case <-space:
	case <-timeout.C:
	}
}

// drain waits until the queue is empty, as long as the link is up.
func (l *link) drain(ctx context.Context) {
	l.mu.Lock()
	if l.drained == nil {
		l.drained = make(chan struct{})
	}
	drained := l.drained
	l.wakeWaiters()
	l.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
}

// wakeWaiters wakes those that wait for space, a flush or an empty queue. l.mu must be held.
func (l *link) wakeWaiters() {
	if l.space != nil && (!l.linked || !l.overHalf()) {
		close(l.space)
		l.space = nil
	}
	l.completeFlushes()
	if l.drained != nil && (!l.linked || l.queue.waiting() == 0) {
		close(l.drained)
		l.drained = nil
	}
}

// run keeps the link up until ctx ends.
func (l *link) run(ctx context.Context) {
	delay, start := minRetryDelay, time.Now()
	defer l.mesh.table.removeRecipient(l.recipient)
	for ctx.Err() == nil {
		wasUp, err := l.connectOnce(ctx)
		if wasUp {
			delay = minRetryDelay
		} else {
			l.mesh.table.removeRecipient(l.recipient)
			if time.Since(start) > startupWindow {
				l.peer.markReady()
			}
		}
		l.mesh.log.Debug("no link to a node", "node", l.peer.id, "error", err, "was up", wasUp)
		select {
		case <-time.After(delay):
		case <-l.dialNow:
		case <-ctx.Done():
		}
		delay = min(2*delay, maxRetryDelay)
	}
}

// connectOnce dials and serves the link until it breaks. It reports whether the link was up.
func (l *link) connectOnce(ctx context.Context) (wasUp bool, err error) {
	dialing, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := l.mesh.net.Dial(dialing, l.peer.id)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	in := newReader(conn)
	w, err := l.handshake(conn, in)
	if err != nil {
		return false, fmt.Errorf("exchange hello: %w", err)
	}
	l.linkUp(w)
	defer l.linkDown()
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		defer conn.Close() //nolint:errcheck // already broken
		err := l.readAcks(conn, in)
		l.mesh.log.Debug("a link broke", "node", l.peer.id, "error", err)
	}()
	err = l.send(conn, broken)
	conn.Close() //nolint:errcheck // so that the other goroutine ends
	<-broken
	return true, err
}

// handshake sends hello and waits for the response.
func (l *link) handshake(conn net.Conn, in *reader) (w welcome, err error) {
	conn.SetDeadline(time.Now().Add(handshakeTimeout)) //nolint:errcheck // reading fails as well
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
	conn.SetDeadline(time.Time{}) //nolint:errcheck // reading fails as well
	return decodeWelcome(body)
}

// linkUp makes the link usable: what the peer has not received is sent again.
func (l *link) linkUp(w welcome) {
	l.mu.Lock()
	l.linked, l.abandoned = true, false
	if !w.known {
		w.received = 0
	}
	l.queue.resume(w.received)
	l.mu.Unlock()
	l.peer.setReachable()
}

// linkDown makes messages wait for the next connection.
func (l *link) linkDown() {
	l.mesh.table.suspendRecipient(l.recipient)
	l.mu.Lock()
	l.linked = false
	l.wakeWaiters()
	l.mu.Unlock()
	l.peer.setUnreachable()
}

// countLossLocked counts a message that was acknowledged to its publisher although the peer
// does not get it. l.mu must be held.
func (l *link) countLossLocked(p *messageFrame) {
	if !p.Kept {
		l.totals.Abandoned++
		l.mesh.losses.Add(LostUnreachable, l.peer.id, 1)
	}
}

// countLoss counts a lost message that was queued.
func (l *link) countLoss(p *messageFrame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.countLossLocked(p)
}

// close refuses further messages with err, and returns those above QoS 0 that will not be sent.
// Those of the backlog are not among them. The link must have ended.
func (l *link) close(err error) (waiting []messageFrame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.abandoned, l.closed = true, err
	waiting = l.queue.clear()
	l.wakeWaiters()
	return waiting
}
