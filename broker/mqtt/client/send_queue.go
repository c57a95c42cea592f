package client

import (
	"net"
	"sync"
	"time"
)

// Bounds of the send queue, in bytes.
const (
	maxBuffered   = 256 << 10 // publishers wait above this
	maxKeptBuffer = 1 << 20   // a larger buffer is not reused
	maxWrite      = 64 << 10  // size of one write, which has its own deadline
)

// sendQueue collects packets. What is queued during a write is sent by the next one.
type sendQueue struct {
	wake  chan struct{} // buffered by one: there is something to do
	space chan struct{} // buffered by one: the queue was emptied

	mu    sync.Mutex // guards what follows; held briefly
	buf   []byte
	ended bool // nothing is added any more
}

func newSendQueue() *sendQueue {
	return &sendQueue{wake: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// add appends packets. It does nothing after addLast.
func (o *sendQueue) add(appended func(dst []byte) []byte) {
	o.mu.Lock()
	if !o.ended {
		o.buf = appended(o.buf)
	}
	o.mu.Unlock()
	notify(o.wake)
}

// addLast appends the last packets; the connection is closed after them.
func (o *sendQueue) addLast(appended func(dst []byte) []byte) {
	o.add(appended)
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	notify(o.wake)
}

func (o *sendQueue) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) > maxBuffered
}

// swap takes the queued packets out and leaves an empty buffer.
func (o *sendQueue) swap(empty []byte) (b []byte, last bool) {
	o.mu.Lock()
	b, o.buf, last = o.buf, empty[:0], o.ended
	o.mu.Unlock()
	notify(o.space)
	return b, last
}

// write writes queued packets, until the last one, an error, or closed.
func (o *sendQueue) write(conn net.Conn, timeout time.Duration, closed <-chan struct{}) error {
	var spare []byte
	for {
		select {
		case <-o.wake:
		case <-closed:
			return nil
		}
		b, last := o.swap(spare)
		if err := writeAll(conn, b, timeout); err != nil || last {
			return err
		}
		if spare = b; cap(spare) > maxKeptBuffer {
			spare = nil
		}
	}
}

func writeAll(conn net.Conn, b []byte, timeout time.Duration) error {
	for len(b) > 0 {
		n := min(len(b), maxWrite)
		if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		if _, err := conn.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// notify wakes the receiver of a channel without blocking.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
