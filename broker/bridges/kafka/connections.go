package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

// connections are the network connections of one client. The library waits longer than its
// context for brokers that do not respond; closing the connections ends that wait.
type connections struct {
	dialer bridges.Dial
	tls    *tls.Config  // nil without TLS
	writes sync.RWMutex // write-locked while writes are paused

	mu     sync.Mutex // guards the fields below
	closed bool
	open   map[net.Conn]struct{}
}

func newConnections(to bridges.Dial, secure *tls.Config) *connections {
	return &connections{dialer: to, tls: secure, open: make(map[net.Conn]struct{})}
}

// dial opens a connection.
func (l *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := target.Dial(ctx, l.dialer, l.tls, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		conn.Close()
		return nil, net.ErrClosed
	}
	l.open[conn] = struct{}{}
	return &connection{conn, l}, nil
}

// withWritesPaused pauses writes while f runs. f must not wait for the network.
func (l *connections) withWritesPaused(f func()) {
	l.writes.Lock()
	defer l.writes.Unlock()
	f()
}

// awaitWrites waits until writes are not paused.
func (l *connections) awaitWrites() {
	l.writes.RLock()
	defer l.writes.RUnlock()
}

// closeAll closes all connections, and refuses new ones.
func (l *connections) closeAll() {
	l.mu.Lock()
	open := l.open
	l.closed, l.open = true, nil
	l.mu.Unlock()
	for conn := range open {
		conn.Close()
	}
}

// connection is a connection that unregisters itself when it is closed.
type connection struct {
	net.Conn
	owner *connections
}

// Write waits until writes are not paused. It does not hold the lock while it writes, as the peer
// may not read.
func (l *connection) Write(p []byte) (int, error) {
	l.owner.awaitWrites()
	return l.Conn.Write(p)
}

// Close closes the connection.
func (l *connection) Close() error {
	l.owner.mu.Lock()
	delete(l.owner.open, l.Conn)
	l.owner.mu.Unlock()
	return l.Conn.Close()
}
