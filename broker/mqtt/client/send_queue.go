package client

import (
	"net"
	"sync"
	"syscall"
	"time"

	"signalbox/broker/embedded/poll"
)

// Bounds of the send queue, in bytes.
const (
	maxBuffered   = 256 << 10 // publishers wait above this
	maxKeptBuffer = 1 << 20   // a larger buffer is not reused
	maxWrite      = 64 << 10  // size of one write, which has its own deadline
	maxFlushed    = 16 << 10  // more is written by the connection's goroutine only
)

// sendQueue collects packets. What is queued during a write is sent by the next one.
type sendQueue struct {
	wake  chan struct{} // buffered by one: there is something to do
	space chan struct{} // buffered by one: the queue was emptied

	writing sync.Mutex // held from swap until what it returned is written; before mu

	mu    sync.Mutex // guards what follows; held briefly
	buf   []byte
	ended bool // nothing is added any more
}

func newSendQueue() *sendQueue {
	return &sendQueue{wake: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// add appends packets. It does nothing after addLast.
func (o *sendQueue) add(appended func(dst []byte) []byte) {
	o.addDeferred(appended)
	notify(o.wake)
}

// addDeferred appends packets as add does. They may be written only after flush.
func (o *sendQueue) addDeferred(appended func(dst []byte) []byte) {
	o.mu.Lock()
	if !o.ended {
		o.buf = appended(o.buf)
	}
	many := len(o.buf) > maxFlushed
	o.mu.Unlock()
	if many {
		notify(o.wake)
	}
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
		o.writing.Lock()
		b, last := o.swap(spare)
		err := writeAll(conn, b, timeout)
		o.writing.Unlock()
		if err != nil || last {
			return err
		}
		if spare = b; cap(spare) > maxKeptBuffer {
			spare = nil
		}
	}
}

// flush writes what was added, in the caller's goroutine, as far as that is possible without
// waiting, and leaves the rest to the goroutine of write: a lone packet need not wait for that.
func (o *sendQueue) flush(conn net.Conn, timeout time.Duration) {
	defer func() {
		if o.mu.Lock(); len(o.buf) > 0 {
			notify(o.wake)
		}
		o.mu.Unlock()
	}()
	c, ok := conn.(syscall.Conn)
	if !ok || !o.writing.TryLock() {
		return
	}
	defer o.writing.Unlock()
	b := o.takeFew()
	n := 0
	if len(b) > 0 && conn.SetWriteDeadline(time.Now().Add(timeout)) == nil {
		n = writeNow(c, b)
	}
	o.putBack(b, n)
}

// takeFew takes the queued packets out, unless they are many or the last.
func (o *sendQueue) takeFew() (b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf) <= maxFlushed && !o.ended {
		b, o.buf = o.buf, nil
	}
	return b
}

// putBack puts packets of which only n bytes were written before those that were added meanwhile.
func (o *sendQueue) putBack(b []byte, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n < len(b) {
		o.buf = append(b[n:], o.buf...)
	} else if o.buf == nil {
		o.buf = b[:0]
	}
}

// writeNow writes what a connection takes without waiting, and returns how much that was. It leaves
// errors to the next write.
func writeNow(c syscall.Conn, b []byte) (n int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	raw.Write(func(fd uintptr) bool { //nolint:errcheck // the next write reports it
		n, _ = poll.WriteDescriptor(fd, b)
		return true
	})
	return n
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
