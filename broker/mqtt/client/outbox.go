package client

import (
	"net"
	"sync"
	"time"
)

// The bounds of what waits to be written, in bytes.
const (
	roomy    = 256 << 10 // publishers wait while there is more
	keptRoom = 1 << 20   // a buffer that has grown beyond is let go
	chunk    = 64 << 10  // of one write, which has a deadline of its own
)

// outbox collects packets to be written. Whatever comes while others are written
// goes out with one write.
type outbox struct {
	wake chan struct{} // buffered by one: there is something to do
	room chan struct{} // buffered by one: something was taken out

	mu    sync.Mutex // guards what follows; held for moments only
	buf   []byte
	ended bool // nothing is added any more
}

func newOutbox() *outbox {
	return &outbox{wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// add has packets appended. After end, it does nothing.
func (o *outbox) add(appended func(dst []byte) []byte) {
	o.mu.Lock()
	if !o.ended {
		o.buf = appended(o.buf)
	}
	o.mu.Unlock()
	signal(o.wake)
}

// end adds the last packets; the connection is closed behind them.
func (o *outbox) end(appended func(dst []byte) []byte) {
	o.add(appended)
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	signal(o.wake)
}

func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) > roomy
}

// swap takes out what is there, and puts in an empty buffer.
func (o *outbox) swap(empty []byte) (b []byte, last bool) {
	o.mu.Lock()
	b, o.buf, last = o.buf, empty[:0], o.ended
	o.mu.Unlock()
	signal(o.room)
	return b, last
}

// write writes what is added, until the last of it, a failure, or over.
func (o *outbox) write(conn net.Conn, timeout time.Duration, over <-chan struct{}) error {
	var spare []byte
	for {
		select {
		case <-o.wake:
		case <-over:
			return nil
		}
		b, last := o.swap(spare)
		if err := writeAll(conn, b, timeout); err != nil || last {
			return err
		}
		if spare = b; cap(spare) > keptRoom {
			spare = nil
		}
	}
}

func writeAll(conn net.Conn, b []byte, timeout time.Duration) error {
	for len(b) > 0 {
		n := min(len(b), chunk)
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

// signal sets a flag that is a channel buffered by one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
