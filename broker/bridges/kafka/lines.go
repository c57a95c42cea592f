package kafka

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/reach"
)

// lines are the network connections of one client. The library waits for brokers
// that say nothing longer than a context lets it; it goes on at once when the lines
// are cut.
type lines struct {
	to      bridges.Dial
	tls     *tls.Config  // nil for none
	writing sync.RWMutex // is held while nothing is to be written

	mu   sync.Mutex // guards the fields below
	cut  bool
	open map[net.Conn]struct{}
}

func newLines(to bridges.Dial, secure *tls.Config) *lines {
	return &lines{to: to, tls: secure, open: make(map[net.Conn]struct{})}
}

// dial makes a line.
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

// hush has nothing written on the lines until f is done, which must not wait for
// the network.
func (l *lines) hush(f func()) {
	l.writing.Lock()
	defer l.writing.Unlock()
	f()
}

// awaitHush waits until there is none.
func (l *lines) awaitHush() {
	l.writing.RLock()
	defer l.writing.RUnlock()
}

// end cuts all lines, and those that are made later.
func (l *lines) end() {
	l.mu.Lock()
	open := l.open
	l.cut, l.open = true, nil
	l.mu.Unlock()
	for conn := range open {
		conn.Close()
	}
}

// line is one that is forgotten when it is closed.
type line struct {
	net.Conn
	lines *lines
}

// Write begins when there is no hush. It does not hold one up: the peer may take
// nothing.
func (l *line) Write(p []byte) (int, error) {
	l.lines.awaitHush()
	return l.Conn.Write(p)
}

// Close closes it.
func (l *line) Close() error {
	l.lines.mu.Lock()
	delete(l.lines.open, l.Conn)
	l.lines.mu.Unlock()
	return l.Conn.Close()
}
