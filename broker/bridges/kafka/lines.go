package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/reach"
)

// lines are the network connections of one client. The library waits longer than its context for
// brokers that do not respond; closing the connections ends that wait.
type lines struct {
	to      bridges.Dial
	tls     *tls.Config  // nil without TLS
	writing sync.RWMutex // write-locked while writes are paused

	mu   sync.Mutex // guards the fields below
	cut  bool
	open map[net.Conn]struct{}
}

func newLines(to bridges.Dial, secure *tls.Config) *lines {
	return &lines{to: to, tls: secure, open: make(map[net.Conn]struct{})}
}

// dial opens a connection.
func (l *lines) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := reach.Dial(ctx, l.to, l.tls, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		conn.Close()
		return nil, net.ErrClosed
	}
	l.open[conn] = struct{}{}
	return &line{conn, l}, nil
}

// hush pauses writes while f runs. f must not wait for the network.
func (l *lines) hush(f func()) {
	l.writing.Lock()
	defer l.writing.Unlock()
	f()
}

// awaitHush waits until writes are not paused.
func (l *lines) awaitHush() {
	l.writing.RLock()
	defer l.writing.RUnlock()
}

// end closes all connections, and refuses new ones.
func (l *lines) end() {
	l.mu.Lock()
	open := l.open
	l.cut, l.open = true, nil
	l.mu.Unlock()
	for conn := range open {
		conn.Close()
	}
}

// line is a connection that unregisters itself when it is closed.
type line struct {
	net.Conn
	lines *lines
}

// Write waits until writes are not paused. It does not hold the lock while it writes, as the peer
// may not read.
func (l *line) Write(p []byte) (int, error) {
	l.lines.awaitHush()
	return l.Conn.Write(p)
}

// Close closes the connection.
func (l *line) Close() error {
	l.lines.mu.Lock()
	delete(l.lines.open, l.Conn)
	l.lines.mu.Unlock()
	return l.Conn.Close()
}
