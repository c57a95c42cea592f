package embedded

import (
	"net"
	"sync"
	"time"
)

// wire is an accepted TCP connection beneath TLS and WebSocket. It counts bytes
// and gives every write a deadline of its own, whatever the layers above set,
// so that a peer that does not read cannot hold its writer for ever. A write
// that fails ends the connection, because part of a packet may be out.
type wire struct {
	net.Conn
	meters   *meters
	patience time.Duration // how long one write may take
	onClose  func()
	once     sync.Once

	mu   sync.Mutex // guards last and the order of SetWriteDeadline calls
	last time.Time  // when everything must be written; zero while nothing hurries
}

// Read counts what it reads.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.meters.bytesReceived.Add(int64(n))
	return n, err
}

// Write writes p within the wire's patience.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	deadline := time.Now().Add(w.patience)
	if !w.last.IsZero() && w.last.Before(deadline) {
		deadline = w.last
	}
	err := w.Conn.SetWriteDeadline(deadline)
	w.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := w.Conn.Write(p)
	w.meters.bytesSent.Add(int64(n))
	if err != nil {
		w.Close() //nolint:errcheck // the write's error counts
	}
	return n, err
}

// hurry ends all writes, also one under way, within d.
func (w *wire) hurry(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last.IsZero() {
		w.last = time.Now().Add(d)
		w.Conn.SetWriteDeadline(w.last) //nolint:errcheck // a closed connection needs no hurry
	}
}

// SetDeadline sets the deadline of reads; writes have theirs.
func (w *wire) SetDeadline(t time.Time) error { return w.Conn.SetReadDeadline(t) }

// SetWriteDeadline does nothing; writes have their own deadline.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// Close closes the connection; more than once is harmless.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.once.Do(w.onClose)
	return err
}
