package cluster

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// streamLayer is raft's network: the connections of protocolRaft, in both directions.
type streamLayer struct {
	credentials *credentials
	self        raft.ServerAddress
	call        time.Duration // for a connection
	inbox       chan net.Conn

	ctx  context.Context // ended by Close
	stop context.CancelFunc

	out *outbound
}

var _ raft.StreamLayer = (*streamLayer)(nil)

func newStreamLayer(ctx context.Context, b *credentials, self raft.ServerAddress, call time.Duration) *streamLayer {
	l := &streamLayer{credentials: b, self: self, call: call, inbox: make(chan net.Conn), out: newOutbound()}
	l.ctx, l.stop = context.WithCancel(ctx)
	return l
}

// deliver passes a connection to raft. It returns false after Close.
func (l *streamLayer) deliver(conn net.Conn) bool {
	select {
	case l.inbox <- conn:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// Accept returns the next connection.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.inbox:
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Dial connects to a node and authenticates it.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, hostPort, ok := parseServerAddress(address)
	if !ok {
		return nil, fmt.Errorf("%q does not name a node", address)
	}
	c := &raftConn{layer: l, to: to, hostPort: hostPort, timeout: timeout}
	if err := c.open(); err != nil {
		return nil, err
	}
	return c, nil
}

// raftConn is a connection of raft's, which keeps several to each node, and some of them for long
// without a message. It is opened again when one of the two nodes has another key or certificate,
// because the node that accepted it would refuse the next message.
type raftConn struct {
	*outboundConn
	opened   checked
	layer    *streamLayer
	to       memberRef
	hostPort string
	timeout  time.Duration
}

// open connects to the node.
func (c *raftConn) open() error {
	l := c.layer
	ctx, cancel := context.WithTimeout(l.ctx, min(c.timeout, l.call)) // short, because the next attempt may succeed
	defer cancel()
	conn, err := dial(ctx, l.credentials, c.to, c.hostPort, protocolRaft)
	if err != nil {
		return err
	}
	o, ok := l.out.add(&scaledConn{Conn: conn, timeout: c.timeout}, c.to)
	if !ok {
		return fmt.Errorf("connect to node %v: %w", c.to, net.ErrClosed)
	}
	c.opened, c.outboundConn = conn, o
	return nil
}

// SetDeadline is called before each message, when nothing is on its way in either direction.
func (c *raftConn) SetDeadline(t time.Time) error {
	before := c.outboundConn
	if c.opened.isStale() && c.open() == nil {
		before.Close()
	}
	return c.outboundConn.SetDeadline(t)
}

// deadlineScale is the number of bytes for which raft's deadline of a message is meant. A larger
// message gets the same time for each deadlineScale bytes.
const deadlineScale = 256 << 10

// scaledConn is a connection for raft's messages. raft allows each message the
// same time, however large its entries are; a link that does not transmit an entry of
// some MiB within it would never transmit it, nor anything behind it. Snapshots have
// more time the larger they are, and so does every message on this connection.
type scaledConn struct {
	net.Conn
	timeout  time.Duration // for each deadlineScale bytes
	deadline time.Time
	written  int // since the deadline was set
}

// SetDeadline sets the deadline of the next message of up to deadlineScale bytes.
func (c *scaledConn) SetDeadline(t time.Time) error {
	c.deadline, c.written = t, 0
	return c.Conn.SetDeadline(t)
}

// Write writes, and defers the deadline after each deadlineScale bytes.
func (c *scaledConn) Write(p []byte) (n int, err error) {
	for {
		m, err := c.Conn.Write(p[:min(len(p), deadlineScale-c.written)])
		n, p, c.written = n+m, p[m:], (c.written+m)%deadlineScale
		if err == nil && m > 0 && c.written == 0 && !c.deadline.IsZero() {
			err = c.SetDeadline(c.deadline.Add(c.timeout))
		}
		if err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// Close closes the connections that this node has opened, and accepts and opens no more.
func (l *streamLayer) Close() error {
	l.stop()
	l.out.close()
	return nil
}

// address is a node's address for raft.
type address string

// Network returns the name of the network.
func (address) Network() string { return protocolRaft }

// String returns the address.
func (a address) String() string { return string(a) }

// Addr returns the address by which the other nodes know this one.
func (l *streamLayer) Addr() net.Addr { return address(l.self) }
